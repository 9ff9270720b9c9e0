//! The final report.

use std::time::Duration;

use serde_json::{Value, json};

use super::process::LOST_ON_PURPOSE;
use super::verdict::{Outcome, Verdict};
use super::workload::Workload;

/// The report of a run.
pub(super) struct Report {
    pub(super) workload: Workload,
    /// How many of a million frames were lost on purpose.
    pub(super) loss: u32,
    pub(super) outcomes: [Outcome; 2],
    pub(super) verdict: Verdict,
    pub(super) stops: [u64; 2],
    pub(super) took: Duration,
    pub(super) on: String,
}

impl Report {
    /// As JSON.
    pub(super) fn lines(&self) -> Vec<Value> {
        vec![json!({ "summary": self.json() })]
    }

    fn sum(&self, of: fn(&Outcome) -> u64) -> u64 {
        self.outcomes.iter().map(of).sum()
    }

    fn count(&self, name: &str) -> u64 {
        self.outcomes.iter().map(|each| each.counter(name)).sum()
    }

    fn json(&self) -> Value {
        let Verdict { lost, twice, wrong, returned, puts, short } = self.verdict;
        let (arrived, bytes) = (self.sum(|each| each.arrived), self.sum(|each| each.bytes));
        json!({
            "bench": "stress", "on": self.on, "seed": self.workload.seed, "messages": self.workload.messages, "arrived": arrived,
            "bytes": bytes, "seconds": self.took.as_secs_f64(),
            "messages_per_s": (arrived as f64 / self.took.as_secs_f64()) as u64,
            "bytes_per_s": (bytes as f64 / self.took.as_secs_f64()) as u64,
            "lost": lost, "twice": twice, "wrong": wrong, "returned": returned, "puts_in_doubt": puts,
            "bytes_short": short, "puts": self.outcomes[1].puts, "loss_per_million": self.loss,
            "stalls": self.outcomes[1].stalls, "stops": self.stops,
            "sender": self.outcomes[0].counters, "receiver": self.outcomes[1].counters,
        })
    }

    pub(super) fn text(&self) -> String {
        let (arrived, bytes, took) = (self.sum(|each| each.arrived), self.sum(|each| each.bytes), self.took);
        let Verdict { lost, twice, wrong, returned, .. } = self.verdict;
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
            LOST_ON_PURPOSE.map(|name| self.count(name)).iter().sum::<u64>(),
            self.count("retransmitted"),
            self.count("bundles_sent"),
            self.count("bundled_sent"),
            self.outcomes[1].stalls,
            self.workload.seed,
        )
    }
}
