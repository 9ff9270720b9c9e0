//! The two processes: their start, and what both have in common.

use std::collections::BTreeMap;
use std::io::stdout;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node};

use super::report::Outcome;
use super::{Line, NODES, Plan, Role, receiver, sender};
use am_measure::cores::pin;
use am_measure::deploy::open::{Losses, open};
use am_measure::deploy::pipe::{Lines, write_line};
use am_measure::drivers::am::facility;
use am_measure::error::Error;
use am_measure::watch::Watch;

pub(super) const ENDPOINT: &str = "stress";
pub(super) const DATA: HandlerId = HandlerId(0);
pub(super) const ASK: HandlerId = HandlerId(1);
pub(super) const ANSWER: HandlerId = HandlerId(2);

/// How long a side stays open at the end. Some devices' memory vanishes with the side that closes first, while the
/// other still moves frames.
const CLOSE_DELAY: Duration = Duration::from_millis(300);
/// How often the count of arrivals is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Counters of frames lost on purpose: by the XDP program, or by a wrapper of a transport without one.
pub(super) const LOST_ON_PURPOSE: [&str; 2] = ["xdp_lost_on_purpose", "faulty_dropped"];
/// The counters of the report.
const COUNTED: [&str; 10] = [
    LOST_ON_PURPOSE[0],
    LOST_ON_PURPOSE[1],
    "retransmitted",
    "timeouts",
    "fast_retransmits",
    "duplicates",
    "rejects_sent",
    "bundles_sent",
    "bundled_sent",
    "returned",
];

/// Carry out the plan of the parent process, until that closes the pipe.
pub(crate) fn child(watch: &Watch) -> Result<(), Error> {
    let plans: Lines<Plan> = Lines::from_parent(watch);
    let Some(plan) = plans.next(Duration::MAX, watch)? else { return Ok(()) };
    pin(plan.core)?;
    let which = matches!(plan.role, Role::Receiver { .. }) as usize;
    // Different losses on each side.
    let losses = Losses { per_million: plan.lost_per_million, seed: plan.workload.seed.wrapping_add(which as u64) };
    let (transport, _) = open(&plan.on, plan.how, losses, watch)?;
    let mut builder = Node::builder(NODES[which]).coalesce(plan.how.coalesce);
    if let Some(framing) = plan.how.framing.fixed() {
        builder = builder.framing(framing);
    }
    let node = builder.open_on(transport).map_err(facility)?;
    match plan.role {
        Role::Sender { region } => sender::run(&node, plan.workload, region, watch),
        Role::Receiver { stalls } => receiver::run(&node, plan.workload, stalls, watch),
    }
}

pub(super) fn say(line: &Line) -> Result<(), Error> {
    write_line(&mut stdout(), line)
}

/// Reports progress to the parent process.
pub(super) struct ProgressReporter {
    arrived: u64,
    last: Instant,
    complete: bool,
}

impl ProgressReporter {
    pub(super) fn new() -> ProgressReporter {
        ProgressReporter { arrived: 0, last: Instant::now(), complete: false }
    }

    /// Report `arrived` messages, and whether they are all.
    pub(super) fn report(&mut self, arrived: u64, complete: bool) -> Result<(), Error> {
        if self.complete || !complete && self.last.elapsed() < REPORT_INTERVAL {
            return Ok(());
        }
        say(&Line::Arrived { more: arrived - self.arrived, complete })?;
        (self.arrived, self.last, self.complete) = (arrived, Instant::now(), complete);
        Ok(())
    }
}

/// Report the outcome.
pub(super) fn conclude(node: &Node, outcome: Outcome) -> Result<(), Error> {
    let counters = node.counters();
    let counters: BTreeMap<String, u64> = COUNTED.map(|name| (name.to_owned(), counters.get(name))).into();
    say(&Line::Outcome(Outcome { counters, ..outcome }))?;
    sleep(CLOSE_DELAY);
    Ok(())
}
