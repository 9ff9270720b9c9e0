//! What was measured, and the figures and ratios of rows.

use am_measure::members::{Conditions, Missing};
use am_measure::{RoundTrips, Spread, median, together};

use crate::turn::Sample;
use crate::work::{Stack, Work};

/// One measurement of one round.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) round: usize,
    pub(crate) work: Work,
    pub(crate) sample: Sample,
}

/// A group's time without delivery after the end of its sequencer, in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailOver {
    pub(crate) members: usize,
    pub(crate) ms: f64,
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) rows: Vec<Work>,
    pub(crate) all: Vec<Measured>,
    pub(crate) fail_overs: Vec<FailOver>,
    pub(crate) missing: Vec<Missing>,
    /// The sizes of groups, ascending.
    pub(crate) members: Vec<usize>,
    pub(crate) conditions: Conditions,
}

/// A figure of a row that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// The median time until the sender's own delivery.
    Own,
    /// The median time until the last member's delivery.
    Last,
    /// Messages a second.
    Rate,
}

impl Figures {
    fn of(&self, work: Work) -> impl Iterator<Item = &Measured> {
        self.all.iter().filter(move |one| one.work == work)
    }

    /// All messages of all rounds.
    pub(crate) fn times(&self, work: Work, figure: Figure) -> RoundTrips {
        together(self.of(work).map(|one| if figure == Figure::Own { &one.sample.own } else { &one.sample.last }))
    }

    pub(crate) fn by_round(&self, work: Work, figure: Figure) -> Vec<(usize, f64)> {
        let median = |times: &RoundTrips| (!times.is_empty()).then(|| times.value_at_quantile(0.5) as f64);
        let of = |sample: &Sample| match figure {
            Figure::Own => median(&sample.own),
            Figure::Last => median(&sample.last),
            Figure::Rate => Some(sample.rate).filter(|rate| *rate > 0.0),
        };
        self.of(work).filter_map(|one| Some((one.round, of(&one.sample)?))).collect()
    }

    /// The figure that stands in the table.
    pub(crate) fn figure(&self, work: Work, figure: Figure) -> Option<f64> {
        let by_round: Vec<f64> = self.by_round(work, figure).into_iter().map(|(_, figure)| figure).collect();
        match figure {
            Figure::Rate => median(&by_round),
            time => (!by_round.is_empty()).then(|| self.times(work, time).value_at_quantile(0.5) as f64),
        }
    }

    /// The ratio of two rows' figures in the table; its ends are of the rounds.
    pub(crate) fn ratio(&self, figure: Figure, over: Work, under: Work) -> Option<Spread> {
        let rounds = Spread::of_ratios(&self.by_round(over, figure), &self.by_round(under, figure))?;
        Some(Spread { median: self.figure(over, figure)? / self.figure(under, figure)?, ..rounds })
    }

    /// Bytes a second at the slowest member.
    pub(crate) fn bytes_per_s(&self, work: Work) -> Option<f64> {
        (work.size > 0).then_some(work.size as f64 * self.figure(work, Figure::Rate)?)
    }

    /// Milliseconds without delivery after the end of the sequencer, in groups of this size.
    pub(crate) fn fail_over_ms(&self, members: usize) -> Option<Spread> {
        Spread::of(self.fail_overs.iter().filter(|one| one.members == members).map(|one| one.ms))
    }

    /// The group whose ratios stand first: the largest whose members have a core each, or else the smallest. In a larger one the
    /// scheduler is measured, too.
    pub(crate) fn first(&self) -> usize {
        let has_cores = self.members.iter().rev().find(|members| **members <= self.conditions.usable);
        *has_cores.or(self.members.first()).unwrap_or(&2)
    }

    /// The stacks that were measured.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = Stack> {
        Stack::ALL.into_iter().filter(|stack| self.all.iter().any(|one| one.work.stack == *stack))
    }
}
