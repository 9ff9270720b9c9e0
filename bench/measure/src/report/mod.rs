//! The report of the measurements: a table for people, JSON for programs.

pub mod columns;
mod json;
mod loss_curve;
pub mod table;
pub mod words;

use crate::cores::Cores;
use crate::loss::Loss;
use crate::plan::Bench;
use crate::stats::{Measured, MismatchedPair, Ratio, Retained, Row, compare, retained, rows};

pub use loss_curve::loss_curve;
pub use words::{INTRODUCTION, LOOPBACK};

#[derive(Debug)]
pub struct Report<'a> {
    rows: Vec<Row<'a>>,
    comparisons: Vec<Comparison>,
    /// The rates with losses on purpose, relative to those without.
    retained: Vec<Retained>,
    cores: Cores,
    rounds: usize,
}

/// The ratios of one bench, size and loss.
#[derive(Debug)]
struct Comparison {
    bench: Bench,
    /// The largest: a full frame holds more with some drivers than with others, if they share no size.
    size: usize,
    loss: Loss,
    ratios: Vec<Ratio>,
    /// The pairs that have no ratio.
    mismatches: Vec<MismatchedPair>,
}

impl Report<'_> {
    pub fn new(all: &[Measured], cores: Cores) -> Report<'_> {
        let rows = rows(all);
        let comparisons = rows.chunk_by(|a, b| (a.first.bench, a.first.nth_size) == (b.first.bench, b.first.nth_size));
        let comparisons = comparisons.map(|its| {
            let Measured { bench, nth_size, loss, .. } = *its[0].first;
            let (ratios, mismatches) = compare(all, bench, nth_size);
            let size = its.iter().map(|row| row.first.layout.size).max().unwrap_or(0);
            Comparison { bench, size, loss, ratios, mismatches }
        });
        let comparisons = comparisons.collect();
        let rounds = rows.iter().map(|row| row.by_round.len()).max().unwrap_or(0);
        let retained = Bench::ALL.iter().flat_map(|bench| retained(all, *bench)).collect();
        Report { comparisons, rows, retained, cores, rounds }
    }

    fn is_simulated(&self) -> bool {
        self.rows.iter().any(|row| words::is_simulated(&row.first.mode))
    }
}
