//! Whether each message arrived once, with its content.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::workload::Workload;
use crate::error::Error;

/// The outcome of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Messages that arrived there, without duplicates.
    pub(super) arrived: u64,
    /// Duplicates.
    pub(super) twice: u64,
    /// Messages and transfers that differ from those that were sent.
    pub(super) wrong: u64,
    /// Messages that were returned to it.
    pub(super) returned: u64,
    /// Bytes of words and payload of all arrivals.
    pub(super) bytes: u64,
    /// Completed transfers: with their content at the receiver, acknowledged at the sender.
    pub(super) puts: u64,
    /// How often it stalled.
    pub(super) stalls: u64,
    pub(super) counters: BTreeMap<String, u64>,
}

impl Outcome {
    pub(super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// The number of each kind of error; all 0 on success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) lost: u64,
    pub(super) twice: u64,
    pub(super) wrong: u64,
    pub(super) returned: u64,
    /// Transfers that only one side knows of.
    pub(super) puts: u64,
    /// Bytes missing from the sum.
    pub(super) short: u64,
}

impl Verdict {
    /// From the sender's and the receiver's outcome.
    pub(super) fn of(workload: &Workload, outcomes: &[Outcome; 2]) -> Verdict {
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        Verdict {
            lost: workload.messages.saturating_sub(sum(|each| each.arrived)),
            twice: sum(|each| each.twice),
            wrong: sum(|each| each.wrong),
            returned: sum(|each| each.returned),
            puts: outcomes[0].puts.abs_diff(outcomes[1].puts),
            short: workload.bytes.saturating_sub(sum(|each| each.bytes)),
        }
    }

    /// # Errors
    /// [`Error::Stress`] unless everything is right.
    pub(super) fn result(&self, workload: &Workload) -> Result<(), Error> {
        if *self == Verdict::default() {
            return Ok(());
        }
        let Verdict { lost, twice, wrong, returned, puts, short } = self;
        Err(Error::Stress(format!(
            "of {} messages {lost} were lost, {twice} were duplicated, {wrong} were changed, {returned} were returned; only one \
             side knows of {puts} transfers; {short} bytes are missing; --seed {} repeats the run",
            workload.messages, workload.seed
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> [Outcome; 2] {
        let of = |arrived, bytes| Outcome { arrived, bytes, puts: 3, ..Outcome::default() };
        [of(250, 250_000), of(750, 750_000)]
    }

    #[test]
    fn each_thing_that_can_be_wrong_is() {
        let workload = Workload::new(1000, 1_000_000, 1500, 7).expect("they fit");
        assert!(Verdict::of(&workload, &outcomes()).result(&workload).is_ok());
        let spoil: [fn(&mut Outcome); 6] = [
            |each| each.arrived -= 1,
            |each| each.twice += 1,
            |each| each.wrong += 1,
            |each| each.returned += 1,
            |each| each.puts += 1,
            |each| each.bytes -= 1,
        ];
        for (at, spoil) in spoil.into_iter().enumerate() {
            let mut outcomes = outcomes();
            spoil(&mut outcomes[at % 2]);
            let error = Verdict::of(&workload, &outcomes).result(&workload).expect_err("it is spoilt");
            assert_eq!(error.exit_code(), 1, "{at}: {error}");
        }
    }
}
