//! The table, the lines of JSON, and the bars.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::chart::{self, Group};
use am_measure::error::Error;
use am_measure::report::columns::{Cell, Column, bytes, lines, short, summed, table};
use am_measure::report::words::{SIMULATED, is_simulated, rounds};
use am_measure::spread::{grouped, median_of, shares};

use super::{Order, Pattern, Point};

/// AM-II's Table 1, on 92 hosts: bandwidth of a host over the peak of two hosts (31 MB/s), and the round trip over theirs
/// (41.94 µs).
const PAPER: [(Pattern, f64, f64); 3] =
    [(Pattern::Shift, 0.82, 1.62), (Pattern::Neighbor, 1.0, 1.13), (Pattern::Bisection, 0.18, 1.21)];

#[derive(Debug)]
pub(super) struct Permute {
    pub(super) order: Order,
    pub(super) points: Vec<Point>,
}

/// All rounds of one pattern on one switch: medians.
pub(super) struct Row {
    pub(super) pattern: Pattern,
    hosts: usize,
    size: usize,
    mode: String,
    pub(super) oversubscription: Option<u64>,
    /// Bytes a second of all hosts.
    aggregate: f64,
    /// The slowest and the fastest host, over their mean.
    share: (f64, f64),
    round_trip: f64,
    retransmitted: u64,
    /// Over two hosts alone: bandwidth of a host, and round trip.
    pub(super) bandwidth_ratio: Option<f64>,
    round_trip_ratio: Option<f64>,
}

impl Permute {
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for all in grouped(&self.points, |point| (point.pattern, point.hosts, point.oversubscription)) {
            let (one, aggregate) = (all[0], median_of(&all, Point::aggregate));
            let round_trip = median_of(&all, |point| point.round_trip);
            let alone = rows.iter().find(|row| row.pattern == Pattern::Pair);
            let over =
                |own: f64, of: fn(&Row) -> f64| alone.map(|pair| own / of(pair)).filter(|ratio| ratio.is_finite());
            rows.push(Row {
                bandwidth_ratio: over(aggregate / one.hosts as f64, Row::each),
                round_trip_ratio: over(round_trip, |row| row.round_trip),
                pattern: one.pattern,
                hosts: one.hosts,
                size: self.order.size,
                mode: one.mode.clone(),
                oversubscription: one.oversubscription,
                aggregate,
                share: (
                    median_of(&all, |point| shares(&point.rates).0),
                    median_of(&all, |point| shares(&point.rates).1),
                ),
                round_trip,
                retransmitted: all.iter().map(|point| point.retransmitted).sum(),
            });
        }
        rows
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let rows = self.rows();
        let ratios = rows.iter().filter(|row| row.pattern != Pattern::Pair).map(Row::ratios);
        let summary = json!({ "rounds": self.order.rounds, "ratios": ratios.collect::<Vec<_>>() });
        summed(lines("permute", COLUMNS, &rows), "permute", None, self.is_simulated(), summary)
    }

    pub(crate) fn table(&self) -> String {
        let rows = self.rows();
        let mut text = format!(
            "permute: every host sends to one other and answers one, after AM-II's Table 1; {} a message\n\n",
            bytes(self.order.size)
        );
        table(COLUMNS, &rows, &mut text);
        let mode = rows.first().map_or("", |row| row.mode.as_str());
        let simulated = if self.is_simulated() { format!("{SIMULATED}\n") } else { String::new() };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "  a host   bytes of its requests that were answered a second; share: the slowest and the fastest host\n  \
             RTT      mean, one request of {} in flight of each host\n  \
             to pair  over two hosts alone; in the paper over the peak of two hosts\n\n{}, {mode}\n",
            bytes(am_measure::hosts::host::WORD_BYTES),
            rounds(self.order.rounds)
        );
        text + &simulated
    }

    /// For each row, the bandwidth and the round trip over those of two hosts alone.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let group = |name: String, bandwidth: f64, round_trip: f64| -> Group {
            (name, vec![vec![("bandwidth of a host", bandwidth)], vec![("round trip", round_trip)]])
        };
        let of = |row: &Row| {
            let switch = row.oversubscription.map_or(" hosts".to_owned(), |times| format!(", 1:{times}"));
            let name = format!("{}\n{}{switch}", row.pattern.name(), row.hosts);
            group(name, row.bandwidth_ratio.unwrap_or(0.0), row.round_trip_ratio.unwrap_or(0.0))
        };
        let rows = self.rows();
        let mut groups: Vec<Group> = rows.iter().filter(|row| row.pattern != Pattern::Pair).map(of).collect();
        groups.extend(PAPER.map(|(of, bandwidth, trip)| group(format!("{}\npaper, 92", of.name()), bandwidth, trip)));
        let mode = rows.first().map_or("", |row| row.mode.as_str());
        chart::bars(&format!("permutations over two hosts alone: {mode}"), &groups)
    }

    fn is_simulated(&self) -> bool {
        self.points.iter().any(|point| is_simulated(&point.mode))
    }
}

impl Point {
    fn aggregate(&self) -> f64 {
        self.rates.iter().sum()
    }
}

const COLUMNS: &[Column<Row>] = &[
    ("pattern", "pattern", |row| Cell::text(row.pattern.name())),
    (">hosts", "hosts", |row| Cell::Count(row.hosts as u64)),
    ("", "size", |row| Cell::Size(row.size)),
    ("switch", "", |row| Cell::text(row.oversubscription.map_or("one".to_owned(), |times| format!("trunk 1:{times}")))),
    (">a host", "host_bytes_per_s", |row| Cell::Rate(row.each(), "B/s")),
    (">aggregate", "bytes_per_s", |row| Cell::Rate(row.aggregate, "B/s")),
    (">share", "share", |row| Cell::Range(row.share.0, row.share.1)),
    (">RTT", "rtt_ns", |row| Cell::Time(row.round_trip)),
    (">sent again", "retransmitted", |row| Cell::Count(row.retransmitted)),
    ("", "oversubscription", |row| Cell::of(row.oversubscription, Cell::Count)),
    ("", "mode", |row| Cell::text(&row.mode)),
    ("", "simulated", |row| if is_simulated(&row.mode) { Cell::Json(Value::Bool(true)) } else { Cell::Absent }),
    (">a host to pair", "", |row| Cell::of(row.bandwidth_ratio, Cell::Ratio)),
    (">paper", "", |row| Cell::of(row.paper(), |paper| Cell::Ratio(paper.0))),
    (">RTT to pair", "", |row| Cell::of(row.round_trip_ratio, Cell::Ratio)),
    (">paper", "", |row| Cell::of(row.paper(), |paper| Cell::Ratio(paper.1))),
];

impl Row {
    /// Bytes a second of one host.
    fn each(&self) -> f64 {
        self.aggregate / self.hosts as f64
    }

    fn paper(&self) -> Option<(f64, f64)> {
        let paper = PAPER.iter().find(|(pattern, ..)| *pattern == self.pattern);
        paper.map(|(_, bandwidth, round_trip)| (*bandwidth, *round_trip))
    }

    fn ratios(&self) -> Value {
        json!({
            "pattern": self.pattern.name(), "hosts": self.hosts, "oversubscription": self.oversubscription,
            "host_over_pair": self.bandwidth_ratio.map(short), "rtt_over_pair": self.round_trip_ratio.map(short),
            "paper": self.paper().map(|(bandwidth, round_trip)| [bandwidth, round_trip]),
        })
    }
}
