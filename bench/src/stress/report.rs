//! Whether each message arrived once, with its content; and the final report.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::process::LOST_ON_PURPOSE;
use super::workload::Workload;
use am_measure::error::Error;

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

/// The report of a run.
pub(super) struct Report {
    pub(super) on: String,
    pub(super) workload: Workload,
    /// How many of a million frames were lost on purpose.
    pub(super) loss: u32,
    /// Of the sender and the receiver.
    pub(super) outcomes: [Outcome; 2],
    /// How often each was stopped.
    pub(super) stops: [u64; 2],
    pub(super) took: Duration,
}

impl Report {
    fn sum(&self, of: fn(&Outcome) -> u64) -> u64 {
        self.outcomes.iter().map(of).sum()
    }

    /// Messages that were lost, duplicated, changed and returned; transfers that only one side knows of; bytes missing
    /// from the sum. All 0 on success.
    fn errors(&self) -> [u64; 6] {
        [
            self.workload.messages.saturating_sub(self.sum(|each| each.arrived)),
            self.sum(|each| each.twice),
            self.sum(|each| each.wrong),
            self.sum(|each| each.returned),
            self.outcomes[0].puts.abs_diff(self.outcomes[1].puts),
            self.workload.bytes.saturating_sub(self.sum(|each| each.bytes)),
        ]
    }

    /// [`Error::Stress`] unless everything is right.
    pub(super) fn result(&self) -> Result<(), Error> {
        let [lost, twice, wrong, returned, puts, short] = self.errors();
        if self.errors() == [0; 6] {
            return Ok(());
        }
        Err(Error::Stress(format!(
            "of {} messages {lost} were lost, {twice} were duplicated, {wrong} were changed, {returned} were returned; only one \
             side knows of {puts} transfers; {short} bytes are missing; --seed {} repeats the run",
            self.workload.messages, self.workload.seed
        )))
    }

    pub(super) fn json(&self) -> Value {
        let [lost, twice, wrong, returned, puts, short] = self.errors();
        let (arrived, bytes) = (self.sum(|each| each.arrived), self.sum(|each| each.bytes));
        let [sender, receiver] = &self.outcomes;
        json!({ "summary": {
            "bench": "stress", "on": self.on, "seed": self.workload.seed, "messages": self.workload.messages, "arrived": arrived,
            "bytes": bytes, "seconds": self.took.as_secs_f64(),
            "messages_per_s": (arrived as f64 / self.took.as_secs_f64()) as u64,
            "bytes_per_s": (bytes as f64 / self.took.as_secs_f64()) as u64,
            "lost": lost, "twice": twice, "wrong": wrong, "returned": returned, "puts_in_doubt": puts,
            "bytes_short": short, "puts": receiver.puts, "loss_per_million": self.loss,
            "stalls": receiver.stalls, "stops": self.stops,
            "sender": sender.counters, "receiver": receiver.counters,
        } })
    }

    pub(super) fn text(&self) -> String {
        let [lost, twice, wrong, returned, ..] = self.errors();
        let (arrived, bytes, took) = (self.sum(|each| each.arrived), self.sum(|each| each.bytes), self.took);
        let count = |name: &str| self.outcomes.iter().filter_map(|each| each.counters.get(name)).sum::<u64>();
        let [sender, receiver] = self.stops;
        format!(
            "{arrived} messages, {:.2} GiB in {:.1} s ({:.0} a second): {lost} lost, {twice} duplicated, {wrong} changed, \
             {returned} returned; also {} transfers of 1 MiB.\n\
             {} frames lost on purpose, {} messages sent again; {} coalesced frames with {} messages; {} stalls; stopped: \
             sender {sender} times, receiver {receiver} times; seed {}.\n",
            bytes as f64 / (1u64 << 30) as f64,
            took.as_secs_f64(),
            arrived as f64 / took.as_secs_f64(),
            self.outcomes[1].puts,
            LOST_ON_PURPOSE.into_iter().map(count).sum::<u64>(),
            count("retransmitted"),
            count("bundles_sent"),
            count("bundled_sent"),
            self.outcomes[1].stalls,
            self.workload.seed,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let workload = Workload::new(1000, 1_000_000, 1500, 7).expect("they fit");
        let of = |arrived, bytes| Outcome { arrived, bytes, puts: 3, ..Outcome::default() };
        let outcomes = [of(250, 250_000), of(750, 750_000)];
        Report { on: String::new(), workload, loss: 0, outcomes, stops: [0; 2], took: Duration::from_secs(1) }
    }

    #[test]
    fn each_thing_that_can_be_wrong_is() {
        assert!(report().result().is_ok());
        let spoil: [fn(&mut Outcome); 6] = [
            |each| each.arrived -= 1,
            |each| each.twice += 1,
            |each| each.wrong += 1,
            |each| each.returned += 1,
            |each| each.puts += 1,
            |each| each.bytes -= 1,
        ];
        for (at, spoil) in spoil.into_iter().enumerate() {
            let mut report = report();
            spoil(&mut report.outcomes[at % 2]);
            let error = report.result().expect_err("it is spoilt");
            assert_eq!(error.exit_code(), 1, "{at}: {error}");
        }
    }
}
