//! The table and the lines of JSON.

use std::fmt::Write;

use serde_json::Value;

use am_measure::cores::Cores;
use am_measure::report::columns::{Cell, Column, lines, table};
use am_measure::report::words::{footer, rounds};
use am_measure::spread::quantile;

use super::{SAMPLES, WAYS, Wakeups};

const LEGEND: &str = concat!(
    "  From the call that wakes to the first instruction of the program on the other thread, which slept.\n",
    "  Ratios are those of the figures in the table.\n",
);

/// The shares of the samples below the quantiles that are reported.
const QUANTILES: [f64; 2] = [0.5, 0.99];

struct Row {
    way: &'static str,
    /// The way that it is compared with.
    to: Option<&'static str>,
    all: Vec<u64>,
    rounds: usize,
    /// Of each quantile.
    ratios: [Option<f64>; 2],
}

const COLUMNS: &[Column<Row>] = &[
    ("way", "way", |row| Cell::text(row.way)),
    ("", "n", |row| Cell::Count(row.all.len() as u64)),
    ("", "rounds", |row| Cell::Count(row.rounds as u64)),
    (">p50", "wakeup_ns.p50", |row| Cell::of(quantile(&row.all, QUANTILES[0]), Cell::Nanos)),
    (">p99", "wakeup_ns.p99", |row| Cell::of(quantile(&row.all, QUANTILES[1]), Cell::Nanos)),
    (">p50", "ratio.p50", |row| Cell::of(row.ratios[0], Cell::Times)),
    (">p99", "ratio.p99", |row| Cell::of(row.ratios[1], Cell::Times)),
    ("compared", "", |row| Cell::of(row.to, |to| Cell::text(format!("times {to}")))),
    ("", "to", |row| Cell::of(row.to, Cell::text)),
];

impl Wakeups {
    fn all(&self, way: usize) -> Vec<u64> {
        self.samples[way].concat()
    }

    /// The ratio of a way to the one that it is compared with.
    fn ratio(&self, way: usize, share: f64) -> Option<f64> {
        let figure = |way: usize| quantile(&self.all(way), share).map(|nanos| nanos as f64);
        Some(figure(way)? / figure(WAYS[way].1?)?)
    }

    fn rows(&self) -> Vec<Row> {
        let row = |way: usize| Row {
            way: WAYS[way].0,
            to: WAYS[way].1.map(|to| WAYS[to].0),
            all: self.all(way),
            rounds: self.samples[way].len(),
            ratios: QUANTILES.map(|share| self.ratio(way, share)),
        };
        (0..WAYS.len()).map(row).collect()
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        lines("wakeup", COLUMNS, &self.rows())
    }

    pub(crate) fn table(&self) -> String {
        let mut text = "wakeup: how soon a thread that sleeps runs again\n\n".to_owned();
        table(COLUMNS, &self.rows(), &mut text);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{LEGEND}");
        let measured = format!("{} of {SAMPLES} samples each, ways taken in turn", rounds(self.samples[0].len()));
        text + &footer(&measured, Cores { near: None, far: None }, None, false)
    }
}
