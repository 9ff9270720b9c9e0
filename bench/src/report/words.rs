//! The sentences of a report.

use crate::plan::Bench;
use crate::stats::Ratio;
use crate::via::Via;

/// The introduction of the demonstration.
pub(crate) const INTRODUCTION: &str = "\
Two hosts on this machine, joined by one Ethernet cable (a veth pair). Three ways to carry a message
from a program on one to a program on the other, taken in turn:
  am   our active messages: header in the source address, AF_XDP rings, reliable, flow-controlled
  raw  bare AF_XDP frames, no protocol: the most that this machine's AF_XDP can do
  udp  a kernel UDP socket that spins: what a program has without us";

/// The introduction without a cable.
pub(crate) const LOOPBACK: &str = "\
Instead, the same two measurements between two threads of this process, joined by memory: the whole
protocol, without kernel, driver or cable.
  am   our active messages
  raw  the same frames with no protocol";

/// How one driver compares with another; `raw` is the name of bare frames here.
pub(crate) fn sentence(bench: Bench, ratio: &Ratio, raw: &str) -> String {
    let spoken = |via| match via {
        Via::Am => "am",
        Via::Raw => raw,
        Via::Udp => "kernel UDP",
        Via::Cacheline => "a bare line of the cache",
        Via::Row(row) => row.name(),
    };
    let (over, under) = (spoken(ratio.over), spoken(ratio.under));
    let times = times(ratio.median);
    match bench {
        Bench::Latency | Bench::Volley => format!("{over} takes {times} times as long as {under}"),
        Bench::Bandwidth | Bench::Bulk => format!("{over} moves {times} times the bytes of {under}"),
        Bench::Rate => format!("{over} moves {times} times the messages of {under}"),
    }
}

/// The ratios that deserve a sentence: not both a ratio and its inverse, and that of UDP to raw only if it is the only
/// one.
pub(crate) fn telling(bench: Bench, ratios: &[Ratio]) -> impl Iterator<Item = &Ratio> {
    let alone = ratios.len() == 1;
    ratios.iter().filter(move |ratio| match (ratio.over, ratio.under) {
        (Via::Am, Via::Udp) => bench != Bench::Latency,
        (Via::Udp, Via::Am) => bench == Bench::Latency,
        (Via::Udp, Via::Raw) => alone,
        _ => true,
    })
}

/// The number of rounds in words.
pub(crate) fn rounds(count: usize) -> String {
    if count == 1 { "one round".to_owned() } else { format!("{count} rounds") }
}

/// Where the XDP program ran.
pub(crate) fn xdp(at: &str) -> &'static str {
    match at {
        "generic" => {
            "XDP ran in the kernel's generic receive path: the faster one on a veth of one queue, the slower one on a NIC"
        }
        _ => "XDP ran in the driver",
    }
}

/// Printed below the tables of a simulated network.
pub(crate) const SIMULATED: &str = "the network is simulated: these figures are of the simulation, and of no wire";

/// Whether the mode is that of a simulated network.
pub(crate) fn is_simulated(mode: &str) -> bool {
    mode.starts_with("simulated")
}

/// A ratio with its significant digits.
pub(crate) fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.0}") } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_is_not_several() {
        assert_eq!([1, 9].map(rounds), ["one round", "9 rounds"]);
    }
}
