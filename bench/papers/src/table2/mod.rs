//! The paper's table 2 (Directed Point, section 6.4): the round trip of one byte and the bandwidth, of Directed Point, of
//! active messages, of bare frames and of the kernel's sockets on the same cable, in one run. Beside ours stand the
//! paper's figures. Machines differ by orders of magnitude, so only ratios to TCP compare.
//!
//! Every row hands over one message with each call, as the paper's programs did. One row has bare frames in bursts.

mod report;

use clap::Args;

use am_measure::cores::Cores;
use am_measure::driver::Driver;
use am_measure::driver::Row;
use am_measure::drivers::tcp::IP_TCP_HEADERS;
use am_measure::error::Error;
use am_measure::loss::Loss;
use am_measure::options::CoresOption;
use am_measure::origin::Origin;
use am_measure::plan::Bench;
use am_measure::run::Common;
use am_measure::session::Session;
use am_measure::size::Size;
use am_measure::spread::Spread;
use am_measure::stats::Measured;
use am_measure::topology::Topology;
use am_measure::watch::Watch;
use am_measure::wire::WireRate;

/// The options of `table2`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help("Where our messages carry their header")))]
pub struct Table2Args {
    /// Limit the rate of the cable in each direction, in bits a second, 10mbit to 10gbit: a switch between the two hosts
    /// sends no faster than a wire of this rate [default: as fast as this machine copies]
    #[arg(long, value_name = "RATE")]
    wire: Option<WireRate>,
    /// MTU of the veth pair, 148 to 65535
    #[arg(long, default_value = "1500", value_name = "BYTES", help_heading = "Where")]
    mtu: u32,
    #[command(flatten)]
    cores: CoresOption,
    #[command(flatten)]
    common: Common,
}

impl Table2Args {
    /// A cable of its own: kernel sockets and bare frames share it.
    pub fn topology(&self) -> Result<Topology, Error> {
        self.common.print.check()?;
        Ok(self.wire.map_or(Topology::Veth(self.mtu), |rate| Topology::Wire(self.mtu, rate)))
    }

    /// Measure the rows of the Directed Point paper's table 2, and print them beside it.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topology = &self.topology()?;
        let run = self.common.run(topology, &[], self.cores.cores.unwrap_or_default(), watch);
        let Session { all, cores, mtu, end } =
            run.session(benches(self.mtu), vec![Loss::NONE], &drivers(), singly())?;
        let table = Table2 { all, cores, mtu, wire: self.wire };
        run.print.publish(table.json(), || table.table(), &Origin::new(topology.transport(), mtu))?;
        end
    }
}

/// A row: its driver, its name, and what it is.
type Line = (Driver, &'static str, &'static str);

const DP: Driver = Driver::Row(Row::Dp);
const RAW_COPIED: Driver = Driver::Row(Row::Copied);
const RAW_BURSTS: Driver = Driver::Row(Row::Streamed);
const TCP: Driver = Driver::Row(Row::Tcp);
const TCP_NAGLE: Driver = Driver::Row(Row::TcpNagle);
const TCP_SLEEPING: Driver = Driver::Row(Row::TcpSleeping);

const LINES: [Line; 9] = [
    (DP, "dp", "Directed Point: Dp::write, Dp::read, Dp::fsync"),
    (Driver::Am, "am", "am-api: a request, and for the round trip its reply"),
    (Driver::Raw, "raw", "bare AF_XDP frames, one with each doorbell"),
    (RAW_COPIED, "raw, copied", "the same; each payload is copied into its frame, and out of it, as by write and read"),
    (RAW_BURSTS, "raw, bursts", "bare AF_XDP frames, 32 with each doorbell"),
    (Driver::Udp, "udp", "kernel UDP, both sides spin"),
    (TCP, "tcp", "kernel TCP, both sides spin, each message a segment (TCP_NODELAY)"),
    (TCP_SLEEPING, "tcp, sleeping", "the same; both sides sleep in poll while they have nothing to do"),
    (TCP_NAGLE, "tcp, Nagle", "kernel TCP, both sides spin, the kernel joins messages into segments"),
];

/// The drivers of all rows.
fn drivers() -> Vec<Driver> {
    LINES.iter().map(|(driver, ..)| *driver).collect()
}

/// Those that hand over one message with each call.
fn singly() -> Vec<Driver> {
    drivers().into_iter().filter(|driver| *driver != RAW_BURSTS).collect()
}

/// The round trip of one byte, and the bandwidth of the longest messages that a frame of every row carries on a cable with
/// this MTU: those of TCP.
fn benches(mtu: u32) -> Vec<(Bench, Vec<Size>)> {
    let longest = (mtu as usize).saturating_sub(IP_TCP_HEADERS).max(1);
    vec![(Bench::Latency, vec![Size::Bytes(1)]), (Bench::Bandwidth, vec![Size::Bytes(longest)])]
}

/// A ratio that is wanted: of two rows' figures.
struct Gate {
    bench: Bench,
    over: Driver,
    under: Driver,
    wanted: f64,
}

/// The paper's: TCP takes 151 µs and DP 46.6, a ratio of 3.24; DP's 12.2 MB/s are 97.6 % of the wire.
const GATES: [Gate; 5] = [
    Gate { bench: Bench::Latency, over: TCP, under: DP, wanted: 3.2 },
    Gate { bench: Bench::Latency, over: TCP_SLEEPING, under: DP, wanted: 3.2 },
    Gate { bench: Bench::Bandwidth, over: DP, under: Driver::Raw, wanted: 0.97 },
    Gate { bench: Bench::Bandwidth, over: DP, under: RAW_COPIED, wanted: 0.97 },
    Gate { bench: Bench::Bandwidth, over: DP, under: RAW_BURSTS, wanted: 0.97 },
];

/// What was measured.
#[derive(Debug)]
struct Table2 {
    all: Vec<Measured>,
    cores: Cores,
    mtu: Option<u32>,
    /// The rate of the cable, if it is limited.
    wire: Option<WireRate>,
}

impl Table2 {
    /// The measurements of one row.
    fn of(&self, bench: Bench, driver: Driver) -> impl Iterator<Item = &Measured> {
        self.all.iter().filter(move |one| one.bench == bench && one.driver == driver)
    }

    /// The compared figure of each round.
    fn by_round(&self, bench: Bench, driver: Driver) -> Vec<(usize, f64)> {
        self.of(bench, driver).map(|one| (one.round, one.figure())).collect()
    }

    /// The ratio of two rows' figures.
    fn ratio(&self, bench: Bench, over: Driver, under: Driver) -> Option<Spread> {
        Spread::of_ratios(&self.by_round(bench, over), &self.by_round(bench, under))
    }

    fn rounds(&self) -> usize {
        self.all.iter().map(|one| one.round + 1).max().unwrap_or(0)
    }
}

/// The name of a row.
fn name(driver: Driver) -> &'static str {
    LINES.iter().find(|(of, ..)| *of == driver).map_or("", |(_, name, _)| name)
}
