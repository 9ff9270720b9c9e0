//! What is wanted of our groups, and whether it is reached.

use am_measure::Spread;
use am_measure::report::{Cell, range, short, times};
use serde_json::{Value, json};

use crate::measured::{Figure, Figures};
use crate::work::{LONG, Senders, Stack, Work};

/// A figure that is wanted in each group.
pub(crate) struct Gate {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// At most, or at least.
    is_limit: bool,
    wanted: f64,
    figure: fn(&Figures, usize) -> Option<Spread>,
}

pub(crate) const GATES: [Gate; 6] = [
    Gate {
        name: "agreed_over_am",
        what: "median time of a null multicast, Agreed, until its sender has it, over that of a bare request and its reply",
        is_limit: true,
        wanted: 1.6,
        figure: |of, members| time(of, Stack::Agreed, Stack::Am, members),
    },
    Gate {
        name: "safe_over_am",
        what: "the same of Safe",
        is_limit: true,
        wanted: 2.6,
        figure: |of, members| time(of, Stack::Safe, Stack::Am, members),
    },
    Gate {
        name: "failover_ms",
        what: "milliseconds without delivery to a survivor, after `kill -9` of the sequencer, detection included",
        is_limit: true,
        wanted: 250.0,
        figure: |of, members| of.fail_over_ms(members),
    },
    Gate {
        name: "corosync_over_agreed",
        what: "median time of Corosync's null multicast over that of ours, Agreed",
        is_limit: false,
        wanted: 5.0,
        figure: |of, members| time(of, Stack::Corosync, Stack::Agreed, members),
    },
    Gate {
        name: "agreed_over_corosync_rate",
        what: "our null multicasts a second, Agreed, over Corosync's, all members send",
        is_limit: false,
        wanted: 5.0,
        figure: |of, members| {
            let row = |stack| Work { senders: Senders::All, ..Work::stream(stack, members, 0) };
            of.ratio(Figure::Rate, row(Stack::Agreed), row(Stack::Corosync))
        },
    },
    Gate {
        name: "long_over_am",
        what: "bytes a second of multicasts of 1 MiB, Agreed, by one sender, over those of requests of 1 MiB to one node",
        is_limit: false,
        wanted: 0.9,
        figure: |of, members| {
            let row = |stack| Work::stream(stack, members, LONG);
            of.ratio(Figure::Rate, row(Stack::Agreed), row(Stack::Am))
        },
    },
];

fn time(of: &Figures, over: Stack, under: Stack, members: usize) -> Option<Spread> {
    of.ratio(Figure::Own, Work::null(over, members), Work::null(under, members))
}

impl Gate {
    pub(crate) fn of(&self, figures: &Figures, members: usize) -> Option<Spread> {
        (self.figure)(figures, members)
    }

    pub(crate) fn is_reached(&self, figure: f64) -> bool {
        if self.is_limit { figure <= self.wanted } else { figure >= self.wanted }
    }

    fn bound(&self) -> &'static str {
        if self.is_limit { "at most" } else { "at least" }
    }

    /// A line of the table: the figure in a group of this size beside what is wanted.
    pub(crate) fn line(&self, figures: &Figures, members: usize) -> Option<Vec<Cell>> {
        let spread = self.of(figures, members)?;
        let verdict = if self.is_reached(spread.median) { "reached" } else { "not reached" };
        let wanted = format!("{} {}", self.bound(), times(self.wanted));
        Some(vec![
            Cell::text(self.name),
            Cell::Count(members as u64),
            Cell::Times(spread.median),
            Cell::text(range(&spread)),
            Cell::text(wanted),
            Cell::text(verdict),
        ])
    }

    pub(crate) fn json(&self, figures: &Figures, members: usize) -> Option<Value> {
        let Spread { median, least, most } = self.of(figures, members)?;
        let bound = self.bound().replace(' ', "_");
        Some(json!({
            "name": self.name, "what": self.what, "members": members, "figure": short(median),
            "range": [short(least), short(most)], bound: self.wanted, "reached": self.is_reached(median),
        }))
    }
}
