//! The table, the paper's below it, the wanted ratios; and the lines of JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::driver::Driver;
use am_measure::loops::latency::{RoundTrips, together};
use am_measure::plan::Bench::{self, Bandwidth, Latency};
use am_measure::report::columns::{Cell, Column, lines, metric, short, summed, table};
use am_measure::report::words::{footer, range, rounds, times, xdp};
use am_measure::spread::Spread;
use am_measure::stats::Measured;
use am_measure::wire::WireRate;

use super::{GATES, Gate, LINES, RAW_BURSTS, RAW_COPIED, TCP, TCP_NAGLE, TCP_SLEEPING, Table2, name};

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
        let row = |&(driver, name, _): &super::Line| {
            let first = self.of(Bandwidth, driver).next().or(self.of(Latency, driver).next())?;
            let round_trips = together(self.of(Latency, driver).filter_map(Measured::round_trips));
            let bandwidth = Spread::of(self.by_round(Bandwidth, driver).into_iter().map(|(_, bytes)| bytes));
            Some(Row { of: self, driver, name, first, round_trips, bandwidth })
        };
        LINES.iter().filter_map(row).collect()
    }

    pub(crate) fn table(&self) -> String {
        let size = self.all.iter().find(|one| one.bench == Bandwidth).map_or(0, |one| one.layout.size);
        let mut text = format!("table2: round trip of 1 byte, and bandwidth of messages of {size} B, one way\n\n");
        if let Some((wire, mtu)) = self.wire.zip(self.mtu) {
            let (rate, payload) = (metric(wire.bytes_per_s()), metric(wire.max_payload_per_s(mtu)));
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "a wire of {wire}, {rate}B/s: full frames of MTU {mtu} carry {payload}B/s of payload\n");
        }
        let rows = self.rows();
        table(&columns(), &rows, &mut text);
        for (_, name, what) in LINES.iter().filter(|(driver, ..)| rows.iter().any(|row| row.driver == *driver)) {
            let _ = writeln!(text, "  {name:<14} {what}");
        }
        text = text + "\n" + LEGEND + if self.wire.is_some() { WIRE_LEGEND } else { "" };
        text += "\nthe paper's table 2, on Fast Ethernet\n\n";
        table(PAPER_COLUMNS, &PAPER, &mut text);
        text += "wanted of dp\n\n";
        GATES.iter().for_each(|gate| text += &self.sentence(gate));
        let at = self.all.iter().find_map(|one| one.xdp).map(xdp);
        text + "\n" + &footer(&format!("{}, rows taken in turn", rounds(self.rounds())), self.cores, at, false)
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

    pub(crate) fn json(&self) -> Vec<Value> {
        let gates: Vec<Value> = GATES.iter().filter_map(|gate| self.gate(gate)).collect();
        let summary = json!({
            "rounds": self.rounds(), "gates": gates, "mtu": self.mtu,
            "wire_bits_per_s": self.wire.map(WireRate::bits_per_s),
        });
        let mut all = summed(lines("table2", &columns(), &self.rows()), "table2", Some(self.cores), false, summary);
        let before_summary = all.len() - 1;
        all.splice(before_summary..before_summary, lines("table2", PAPER_COLUMNS, &PAPER));
        all
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
    use super::super::DP;
    use super::*;
    use am_measure::cores::Cores;
    use am_measure::stats::measured;

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
        let lines = figures().json();
        assert_eq!((lines.len(), &lines[0]["via"]), (3 + PAPER.len() + 1, &json!("dp")));
        assert!((lines[0]["rtt_tcp_over"].as_f64().unwrap() - 4.0).abs() < 0.01, "{}", lines[0]);
        assert_eq!(lines[0]["bandwidth_over_raw"], json!(0.96));
        assert_eq!(lines[0]["bandwidth_over_tcp_nagle"], Value::Null, "it was not measured");
    }

    #[test]
    fn what_is_wanted_is_judged() {
        let figures = figures();
        let gates = figures.json().pop().unwrap()["summary"]["gates"].clone();
        let judged: Vec<_> = gates.as_array().unwrap().iter().map(|gate| gate["reached"].as_bool().unwrap()).collect();
        assert_eq!(judged, [true, false], "those that have both rows");
        let text = figures.table();
        assert!(text.contains("3.2 wanted: reached") && text.contains("97 % wanted: not reached"), "{text}");
        assert!(text.contains("U-Net/FE"), "{text}");
    }
}
