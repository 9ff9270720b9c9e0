//! The sentences of a report.

use crate::driver::Driver;
use crate::plan::Bench;
use crate::spread::Spread;
use crate::stats::Ratio;

/// What the demonstration says first.
pub const INTRODUCTION: &str = "\
Two hosts on this machine, joined by one Ethernet cable (a veth pair). Three drivers take turns to
carry messages from a program on one host to a program on the other:
  am   our active messages: header in the source address, AF_XDP rings, reliable, flow-controlled
  raw  bare AF_XDP frames without a protocol: the limit of AF_XDP on this machine
  udp  a kernel UDP socket that spins: what a program can use without us";

/// What the demonstration says where no cable can be made.
pub const LOOPBACK: &str = "\
Instead, the same two measurements run between two threads of this process, joined by memory: the
whole protocol, without kernel, device driver or cable.
  am   our active messages
  raw  the same frames without a protocol";

/// Why kernel UDP carries more over a veth, below a ratio to it.
pub(crate) const VETH_GATHERS: &str =
    "  (The kernel passes dozens of UDP datagrams over a veth as one packet; each AF_XDP frame passes alone.)";

/// How one driver compares with another; `raw` is the name of bare frames here.
pub(crate) fn sentence(bench: Bench, ratio: &Ratio, raw: &str) -> String {
    let words = |driver| match driver {
        Driver::Am => "am",
        Driver::Raw => raw,
        Driver::Udp => "kernel UDP",
        Driver::Cacheline => "a bare cache line",
        other => other.name(),
    };
    let (over, under) = (words(ratio.over), words(ratio.under));
    let times = times(ratio.ratio.median);
    match bench {
        Bench::Latency | Bench::Volley | Bench::LogP => format!("{over} takes {times} times as long as {under}"),
        Bench::Bandwidth | Bench::Bulk => format!("{over} moves {times} times the bytes of {under}"),
        Bench::Rate => format!("{over} moves {times} times the messages of {under}"),
    }
}

/// The ratios that deserve a sentence: not both a ratio and its inverse, and that of UDP to raw only if it is the only
/// one.
pub(crate) fn telling(bench: Bench, ratios: &[Ratio]) -> impl Iterator<Item = &Ratio> {
    let alone = ratios.len() == 1;
    ratios.iter().filter(move |ratio| match (ratio.over, ratio.under) {
        (Driver::Am, Driver::Udp) => bench != Bench::Latency,
        (Driver::Udp, Driver::Am) => bench == Bench::Latency,
        (Driver::Udp, Driver::Raw) => alone,
        _ => true,
    })
}

/// A number of rounds.
pub fn rounds(count: usize) -> String {
    if count == 1 { "one round".to_owned() } else { format!("{count} rounds") }
}

/// Where the XDP program ran.
pub fn xdp(at: &str) -> &'static str {
    match at {
        "generic" => {
            "XDP ran in the kernel's generic receive path: the faster one on a veth of one queue, the slower one on a NIC"
        }
        _ => "XDP ran in the driver",
    }
}

/// Printed below the tables of a simulated network.
pub const SIMULATED: &str = "the network is simulated: these are figures of the simulation, not of a wire";

/// Printed below the tables if frames were traced.
pub(crate) const TRACED: &str =
    "traced: each frame was also written to a file, which costs time that the figures contain";

/// Printed below the tables if a figure or a ratio differs between rounds by more than [`MAX_SPREAD`].
pub(crate) const DISTURBED: &str =
    "the rounds differ by more than a factor of ten: with other load on the machine these figures are worthless";

/// How much a ratio may differ between rounds.
pub(super) const MAX_SPREAD: f64 = 10.0;

/// Whether the mode is that of a simulated network.
pub fn is_simulated(mode: &str) -> bool {
    mode.starts_with("simulated")
}

/// The smallest and the largest of the rounds' ratios.
pub fn range(spread: &Spread) -> String {
    format!("rounds: {} to {}", times(spread.least), times(spread.most))
}

/// A ratio with its significant digits.
pub fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.0}") } else { format!("{ratio:.2}") }
}
