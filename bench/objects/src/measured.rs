//! What was measured, and the figures and ratios of rows.

use am_measure::members::{Conditions, Missing};
use am_measure::{RoundTrips, Spread, together};

use crate::protocol::READS;
use crate::turn::Sample;
use crate::work::Row;

/// One measurement of one round.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) round: usize,
    pub(crate) row: Row,
    pub(crate) sample: Sample,
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) all: Vec<Measured>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) members: usize,
    pub(crate) conditions: Conditions,
}

/// A time of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Until the caller has its result, or its own message.
    Own,
    /// Until the last member has the message.
    Last,
}

impl Figures {
    fn of(&self, row: Row, figure: Figure) -> impl Iterator<Item = (usize, &RoundTrips)> {
        self.all.iter().filter(move |one| one.row == row).filter_map(move |one| {
            let times = if figure == Figure::Own { Some(&one.sample.own) } else { one.sample.last.as_ref() };
            Some((one.round, times.filter(|times| !times.is_empty())?))
        })
    }

    /// The calls whose times are known.
    pub(crate) fn count(&self, row: Row) -> u64 {
        self.of(row, Figure::Own).map(|(_, times)| times.len()).sum::<u64>() * at_once(row)
    }

    /// The time that this share of all rounds' calls is below.
    pub(crate) fn quantile(&self, row: Row, figure: Figure, share: f64) -> Option<f64> {
        let all = together(self.of(row, figure).map(|(_, times)| times));
        (!all.is_empty()).then(|| all.value_at_quantile(share) as f64 / at_once(row) as f64)
    }

    /// The median of each round.
    pub(crate) fn by_round(&self, row: Row, figure: Figure) -> Vec<(usize, f64)> {
        let median = |times: &RoundTrips| times.value_at_quantile(0.5) as f64 / at_once(row) as f64;
        self.of(row, figure).map(|(round, times)| (round, median(times))).collect()
    }

    /// A row's time over that of the row that it is compared with, in each round that has both. What wakes another process is compared with
    /// a message until the last member has it.
    pub(crate) fn ratios(&self, row: Row) -> Vec<f64> {
        let Some((row_under, figure)) = under(row) else { return vec![] };
        let under = self.by_round(row_under, figure);
        let over = self.by_round(row, Figure::Own).into_iter();
        over.filter_map(|(round, time)| Some(time / under.iter().find(|(of, _)| *of == round)?.1)).collect()
    }

    /// The ratio of the figures in the table; its ends are of the rounds.
    pub(crate) fn ratio(&self, row: Row) -> Option<Spread> {
        let (row_under, figure) = under(row)?;
        let rounds = Spread::of(self.ratios(row))?;
        Some(Spread {
            median: self.quantile(row, Figure::Own, 0.5)? / self.quantile(row_under, figure, 0.5)?,
            ..rounds
        })
    }
}

fn under(row: Row) -> Option<(Row, Figure)> {
    Some((row.under()?, if matches!(row, Row::Pop(_) | Row::Writes(_)) { Figure::Last } else { Figure::Own }))
}

fn at_once(row: Row) -> u64 {
    if row == Row::Read { READS } else { 1 }
}
