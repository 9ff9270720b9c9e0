//! The paper's table 2 (Directed Point, section 6.4): the round trip of one byte and the bandwidth, of Directed Point, of
//! active messages, of bare frames and of the kernel's sockets on the same cable, in one run. Beside ours stand the
//! paper's figures. Machines differ by orders of magnitude, so only ratios to TCP compare.
//!
//! Every row hands over one message with each call, as the paper's programs did. One row has bare frames in bursts.

use clap::Args;
use serde_json::{Value, json};

use am_measure::Bench::{self, Bandwidth, Latency};
use am_measure::deploy::WireRate;
use am_measure::drivers::IP_TCP_HEADERS;
use am_measure::options::{CoresOption, Origin};
use am_measure::report::{Cell, Column, Report, metric, range, rounds, short, times, xdp};
use am_measure::{
    Common, Cores, Driver, Error, Loss, Measured, RoundTrips, Session, Size, Spread, Topology, Watch, together,
};

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
        Ok(Topology::Veth(self.mtu, self.wire))
    }

    /// Measure the rows of the Directed Point paper's table 2, and print them beside it.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topology = &self.topology()?;
        let run = self.common.run(topology, &[], self.cores.cores.unwrap_or_default(), watch);
        let drivers: Vec<Driver> = LINES.iter().map(|(driver, ..)| *driver).collect();
        let singly = drivers.iter().copied().filter(|driver| *driver != RAW_BURSTS).collect();
        // The longest messages that a frame of every row carries on this cable: those of TCP.
        let longest = (self.mtu as usize).saturating_sub(IP_TCP_HEADERS).max(1);
        let benches = vec![(Bench::Latency, vec![Size::Bytes(1)]), (Bench::Bandwidth, vec![Size::Bytes(longest)])];
        let Session { all, cores, mtu, end } = run.session(benches, vec![Loss::NONE], &drivers, singly)?;
        let table = Table2 { all, cores, mtu, wire: self.wire };
        run.print.publish(table.report(), &Origin::new(topology.transport(), mtu))?;
        end
    }
}

/// A row: its driver, its name, and what it is.
type Line = (Driver, &'static str, &'static str);

const DP: Driver = Driver::Dp;
const RAW_COPIED: Driver = Driver::Copied;
const RAW_BURSTS: Driver = Driver::Streamed;
const TCP: Driver = Driver::Tcp;
const TCP_NAGLE: Driver = Driver::TcpNagle;
const TCP_SLEEPING: Driver = Driver::TcpSleeping;

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

/// What the columns are. docs/measuring.md has more.
const LEGEND: &str = concat!(
    "  tcp/it, sleeping/it             the round trip of the row `tcp`, or of `tcp, sleeping`, over that of this row\n",
    "  /tcp, /Nagle                    this row's bandwidth over that of the row `tcp`, or of `tcp, Nagle`\n",
    "  /raw, /copied, /bursts          the same over the row `raw`, `raw, copied` or `raw, bursts`\n",
);
const WIRE_LEGEND: &str = "  of rate, of payload             this row's bandwidth over the rate of the wire, and over the payload that it carries\n";

/// A row of ours.
struct Row<'a> {
    of: &'a Table2,
    driver: Driver,
    name: &'static str,
    first: &'a Measured,
    round_trips: RoundTrips,
    bandwidth: Option<Spread>,
}

fn columns<'a>() -> [Column<Row<'a>>; 24] {
    [
        ("", "via", |row| Cell::text(row.driver.name())),
        ("row", "row", |row| Cell::text(row.name)),
        ("", "mode", |row| {
            let mode = &row.first.mode;
            Cell::text(row.of.wire.map_or(mode.clone(), |wire| format!("{mode}, bridge, tbf {wire}")))
        }),
        ("", "framing", |row| Cell::text(row.first.framing)),
        ("", "batching", |row| Cell::Json(json!(row.first.batching))),
        ("", "bandwidth_size", |row| Cell::Size(row.first.layout.size)),
        ("", "transport", |row| match row.driver {
            Driver::Udp => Cell::text("udp"),
            driver if driver.is_kernel() => Cell::text("tcp"),
            _ => Cell::Absent,
        }),
        ("", "rtt_size", |_| Cell::Size(1)),
        (">rtt p50", "rtt_ns.p50", |row| Cell::Nanos(row.round_trips.value_at_quantile(0.5))),
        (">p99", "rtt_ns.p99", |row| Cell::Nanos(row.round_trips.value_at_quantile(0.99))),
        ("", "rtt_ns.p99_9", |row| Cell::Nanos(row.round_trips.value_at_quantile(0.999))),
        ("", "n", |row| Cell::Count(row.round_trips.len())),
        (">tcp/it", "rtt_tcp_over", |row| row.under(TCP)),
        (">sleeping/it", "rtt_tcp_sleeping_over", |row| row.under(TCP_SLEEPING)),
        (">bandwidth", "bytes_per_s", |row| Cell::of(row.bandwidth, |of| Cell::Rate(of.median, "B/s"))),
        ("", "bytes_per_s_range", |row| {
            Cell::of(row.bandwidth, |of| Cell::Json(json!([of.least.round(), of.most.round()])))
        }),
        (">of rate", "of_rate", |row| row.of_wire(|wire, _| wire.bytes_per_s())),
        (">of payload", "of_payload", |row| row.of_wire(|wire, mtu| wire.max_payload_per_s(mtu))),
        (">/tcp", "bandwidth_over_tcp", |row| row.over(TCP)),
        (">/Nagle", "bandwidth_over_tcp_nagle", |row| row.over(TCP_NAGLE)),
        (">/raw", "bandwidth_over_raw", |row| row.over(Driver::Raw)),
        (">/copied", "bandwidth_over_raw_copied", |row| row.over(RAW_COPIED)),
        (">/bursts", "bandwidth_over_raw_bursts", |row| row.over(RAW_BURSTS)),
        (">lost", "lost", |row| {
            let its = row.of.all.iter().filter(|one| one.driver == row.driver);
            Cell::Count(its.map(|one| one.lost()).sum())
        }),
    ]
}

impl Row<'_> {
    /// Another row's round trip over that of this one.
    fn under(&self, other: Driver) -> Cell {
        self.ratio(Latency, other, self.driver)
    }

    /// This row's bandwidth over that of another.
    fn over(&self, other: Driver) -> Cell {
        self.ratio(Bandwidth, self.driver, other)
    }

    fn ratio(&self, bench: Bench, over: Driver, under: Driver) -> Cell {
        Cell::of(self.of.ratio(bench, over, under), |ratio| Cell::Times(ratio.median))
    }

    /// The share that the bandwidth is of what the wire carries, if its rate is limited.
    fn of_wire(&self, carries: fn(WireRate, u32) -> f64) -> Cell {
        match (self.bandwidth, self.of.wire, self.of.mtu) {
            (Some(bandwidth), Some(wire), Some(mtu)) => Cell::Share(bandwidth.median / carries(wire, mtu)),
            _ => Cell::Absent,
        }
    }
}

/// A row of the paper, of Pentiums of 100 and 133 MHz and Fast Ethernet: its name, its round trip in microseconds, its
/// bandwidth in MB a second.
type PaperRow = (&'static str, f64, f64);

const PAPER_TCP: PaperRow = ("Linux TCP", 151.0, 5.3);
const PAPER: [PaperRow; 6] = [
    ("U-Net/FE", 57.0, 12.0),
    ("PARMA", 74.0, 6.6),
    ("GAMMA, cold cache", 61.4, 9.6),
    ("GAMMA, hot cache", 36.8, 9.8),
    PAPER_TCP,
    ("DP", 46.6, 12.2),
];

const PAPER_COLUMNS: &[Column<PaperRow>] = &[
    ("row", "paper", |row| Cell::text(row.0)),
    (">rtt", "", |row| Cell::text(format!("{} µs", row.1))),
    ("", "rtt_us", |row| Cell::Json(json!(row.1))),
    (">tcp/it", "rtt_tcp_over", |row| Cell::Times(PAPER_TCP.1 / row.1)),
    (">bandwidth", "", |row| Cell::text(format!("{} MB/s", row.2))),
    ("", "mbytes_per_s", |row| Cell::Json(json!(row.2))),
    (">/tcp", "bandwidth_over_tcp", |row| Cell::Times(row.2 / PAPER_TCP.2)),
    ("", "transport", |_| Cell::text("fast ethernet")),
];

impl Table2 {
    /// The rows that were measured.
    fn rows(&self) -> Vec<Row<'_>> {
        let row = |&(driver, name, _): &Line| {
            let first = self.of(Bandwidth, driver).next().or(self.of(Latency, driver).next())?;
            let round_trips = together(self.of(Latency, driver).filter_map(Measured::round_trips));
            let bandwidth = Spread::of(self.by_round(Bandwidth, driver).into_iter().map(|(_, bytes)| bytes));
            Some(Row { of: self, driver, name, first, round_trips, bandwidth })
        };
        LINES.iter().filter_map(row).collect()
    }

    fn report(&self) -> Report {
        let size = self.all.iter().find(|one| one.bench == Bandwidth).map_or(0, |one| one.layout.size);
        let title = format!("table2: round trip of 1 byte, and bandwidth of messages of {size} B, one way");
        let mut report = Report::new("table2", title);
        if let Some((wire, mtu)) = self.wire.zip(self.mtu) {
            let (rate, payload) = (metric(wire.bytes_per_s()), metric(wire.max_payload_per_s(mtu)));
            report.say(format_args!(
                "a wire of {wire}, {rate}B/s: full frames of MTU {mtu} carry {payload}B/s of payload\n"
            ));
        }
        let rows = self.rows();
        report.rows(&columns(), &rows);
        for (_, name, what) in LINES.iter().filter(|(driver, ..)| rows.iter().any(|row| row.driver == *driver)) {
            report.say(format_args!("  {name:<14} {what}"));
        }
        report.text += "\n";
        report.text += LEGEND;
        report.text += if self.wire.is_some() { WIRE_LEGEND } else { "" };
        report.say("\nthe paper's table 2, on Fast Ethernet\n");
        report.table(PAPER_COLUMNS, &PAPER);
        report.say("wanted of dp\n");
        GATES.iter().for_each(|gate| report.text += &self.sentence(gate));
        report.say("");
        let at = self.all.iter().find_map(|one| one.xdp).map(xdp);
        report.footer(format_args!("{}, rows taken in turn", rounds(self.rounds())), self.cores, at);
        report.lines(PAPER_COLUMNS, &PAPER);
        let gates: Vec<Value> = GATES.iter().filter_map(|gate| self.gate(gate)).collect();
        report.summary(json!({
            "rounds": self.rounds(), "gates": gates, "mtu": self.mtu,
            "wire_bits_per_s": self.wire.map(WireRate::bits_per_s),
        }));
        report
    }

    fn sentence(&self, gate: &Gate) -> String {
        let Some(ratio) = self.ratio(gate.bench, gate.over, gate.under) else { return String::new() };
        let (over, under) = (name(gate.over), name(gate.under));
        let verdict = if ratio.median >= gate.wanted { "reached" } else { "not reached" };
        match gate.bench {
            Latency => format!(
                "  the round trip of {over} takes {} times that of {under} ({}); {} wanted: {verdict}\n",
                times(ratio.median),
                range(&ratio),
                gate.wanted
            ),
            _ => {
                let [median, least, most, wanted] =
                    [ratio.median, ratio.least, ratio.most, gate.wanted].map(|share| share * 100.0);
                format!(
                    "  {over} has {median:.1} % of the bandwidth of {under} (rounds: {least:.1} to {most:.1}); \
                     {wanted:.0} % wanted: {verdict}\n"
                )
            }
        }
    }

    fn gate(&self, gate: &Gate) -> Option<Value> {
        let Spread { median, least, most } = self.ratio(gate.bench, gate.over, gate.under)?;
        Some(json!({
            "bench": gate.bench, "over": gate.over.name(), "under": gate.under.name(), "ratio": short(median),
            "range": [short(least), short(most)], "wanted": gate.wanted, "reached": median >= gate.wanted,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_measure::{Cores, measured};

    /// Two rounds, the second on a machine half as fast.
    fn figures() -> Table2 {
        let one = |driver, round_trip: u64, bandwidth: u64| {
            [(0, 1), (1, 2)].into_iter().flat_map(move |(round, slow)| {
                [
                    measured(Bench::Latency, 0, driver, round, round_trip * slow),
                    measured(Bench::Bandwidth, 0, driver, round, bandwidth / slow),
                ]
            })
        };
        let all = one(DP, 5_000, 960).chain(one(Driver::Raw, 4_000, 1000)).chain(one(TCP, 20_000, 500));
        Table2 { all: all.collect(), cores: Cores { near: None, far: None }, mtu: Some(1500), wire: None }
    }
    #[test]
    fn ratios_are_taken_within_the_rounds() {
        let lines = figures().report().lines;
        assert_eq!((lines.len(), &lines[0]["via"]), (3 + PAPER.len() + 1, &json!("dp")));
        assert!((lines[0]["rtt_tcp_over"].as_f64().unwrap() - 4.0).abs() < 0.01, "{}", lines[0]);
        assert_eq!(lines[0]["bandwidth_over_raw"], json!(0.96));
        assert_eq!(lines[0]["bandwidth_over_tcp_nagle"], Value::Null, "it was not measured");
    }

    #[test]
    fn what_is_wanted_is_judged() {
        let figures = figures();
        let gates = figures.report().lines.pop().unwrap()["summary"]["gates"].clone();
        let judged: Vec<_> = gates.as_array().unwrap().iter().map(|gate| gate["reached"].as_bool().unwrap()).collect();
        assert_eq!(judged, [true, false], "those that have both rows");
        let text = figures.report().text;
        assert!(text.contains("3.2 wanted: reached") && text.contains("97 % wanted: not reached"), "{text}");
        assert!(text.contains("U-Net/FE"), "{text}");
    }
}
