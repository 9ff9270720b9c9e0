//! What was measured, and the figures and ratios of rows.

use am_measure::{Cores, RoundTrips, Spread, median, together};

use crate::load::Sample;
use crate::order::Marshalling;
use crate::work::Work;

/// One measurement of one round.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) round: usize,
    pub(crate) work: Work,
    pub(crate) sample: Sample,
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) rows: Vec<Work>,
    pub(crate) all: Vec<Measured>,
    pub(crate) marshalling: [Marshalling; 2],
    /// Of our messages.
    pub(crate) transport: String,
    pub(crate) cores: Cores,
}

/// A figure of a row that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// The median time of a call.
    Time,
    /// Calls a second.
    Rate,
}

impl Figures {
    fn of(&self, work: Work) -> impl Iterator<Item = &Measured> {
        self.all.iter().filter(move |one| one.work == work)
    }

    /// All calls of all rounds.
    pub(crate) fn round_trips(&self, work: Work) -> RoundTrips {
        together(self.of(work).map(|one| &one.sample.round_trips))
    }

    pub(crate) fn by_round(&self, work: Work, figure: Figure) -> Vec<(usize, f64)> {
        let of = |one: &Measured| match figure {
            Figure::Time => one.sample.round_trips.value_at_quantile(0.5) as f64,
            Figure::Rate => one.sample.calls_per_s,
        };
        self.of(work).map(|one| (one.round, of(one))).collect()
    }

    /// The figure that stands in the table.
    pub(crate) fn figure(&self, work: Work, figure: Figure) -> Option<f64> {
        let by_round: Vec<f64> = self.by_round(work, figure).into_iter().map(|(_, figure)| figure).collect();
        match figure {
            Figure::Time => (!by_round.is_empty()).then(|| self.round_trips(work).value_at_quantile(0.5) as f64),
            Figure::Rate => median(&by_round),
        }
    }

    /// The ratio of two rows' figures in the table; its ends are of the rounds.
    pub(crate) fn ratio(&self, figure: Figure, over: Work, under: Work) -> Option<Spread> {
        let rounds = Spread::of_ratios(&self.by_round(over, figure), &self.by_round(under, figure))?;
        Some(Spread { median: self.figure(over, figure)? / self.figure(under, figure)?, ..rounds })
    }

    /// Bytes a second, of arguments and results together.
    pub(crate) fn bytes_per_s(&self, work: Work) -> Option<f64> {
        (work.size > 0).then_some(2.0 * work.size as f64 * self.figure(work, Figure::Rate)?)
    }
}
