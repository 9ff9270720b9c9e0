//! The report of the measurements: a table for people, JSON for programs.

mod json;
mod loss_curve;
pub(crate) mod table;
pub(crate) mod words;

use std::collections::BTreeSet;

use crate::cores::Cores;
use crate::loss::Loss;
use crate::plan::Bench;
use crate::stats::{Measured, MismatchedPair, Ratio, Retained, Row, mismatches, ratios, retained, rows};

pub(crate) use loss_curve::loss_curve;
pub(crate) use words::{INTRODUCTION, LOOPBACK};

/// Everything that a report contains.
#[derive(Debug)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// By bench and position of the size.
    comparisons: Vec<Comparison>,
    /// The rates with losses on purpose, relative to those without.
    retained: Vec<Retained>,
    cores: Cores,
    rounds: usize,
}

/// The ratios of one bench and size.
#[derive(Debug)]
struct Comparison {
    bench: Bench,
    nth_size: usize,
    ratios: Vec<Ratio>,
    /// The pairs that have no ratio.
    mismatches: Vec<MismatchedPair>,
}

impl Report {
    pub(crate) fn new(all: &[Measured], cores: Cores) -> Report {
        let rows = rows(all);
        let mut places: Vec<(Bench, usize)> = rows.iter().map(|row| (row.bench, row.nth_size)).collect();
        places.dedup();
        let compare = |(bench, nth_size)| {
            let (ratios, mismatches) = (ratios(all, bench, nth_size), mismatches(&rows, bench, nth_size));
            Comparison { bench, nth_size, ratios, mismatches }
        };
        let rounds = rows.iter().map(|row| row.by_round.len()).max().unwrap_or(0);
        let benches: BTreeSet<u8> = rows.iter().map(|row| row.bench.code()).collect();
        let retained =
            benches.into_iter().filter_map(Bench::from_code).flat_map(|bench| retained(all, bench)).collect();
        let comparisons = places.into_iter().map(compare).collect();
        Report { comparisons, rows, retained, cores, rounds }
    }

    /// Whether the network was simulated.
    fn is_simulated(&self) -> bool {
        self.rows.iter().any(|row| words::is_simulated(&row.mode))
    }

    fn size_of(&self, comparison: &Comparison) -> usize {
        let here = |row: &&Row| (row.bench, row.nth_size) == (comparison.bench, comparison.nth_size);
        // A full frame holds more with some drivers than with others, if they share no size.
        self.rows.iter().filter(here).map(|row| row.layout.size).max().unwrap_or(0)
    }

    fn loss_of(&self, comparison: &Comparison) -> Loss {
        let here = |row: &&Row| (row.bench, row.nth_size) == (comparison.bench, comparison.nth_size);
        self.rows.iter().find(here).map_or(Loss::NONE, |row| row.loss)
    }
}
