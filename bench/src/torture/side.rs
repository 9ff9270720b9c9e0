//! What both processes do alike.

use std::collections::BTreeMap;
use std::io::stdout;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node};

use super::children::Line;
use super::verdict::Outcome;
use super::{NODES, Plan, Role};
use crate::deploy::pipe::write_line;
use crate::deploy::sides::{Losses, open};
use crate::error::Error;
use crate::watch::Watch;

pub(super) const ENDPOINT: &str = "torture";
pub(super) const DATA: HandlerId = HandlerId(0);
pub(super) const ASK: HandlerId = HandlerId(1);
pub(super) const ANSWER: HandlerId = HandlerId(2);

/// Neither side closes while the other still moves frames: some devices' memory goes with whoever does.
const STAYS: Duration = Duration::from_millis(300);
/// How much has arrived is told so often.
const TELL: Duration = Duration::from_millis(200);
/// Frames that were lost on purpose: by the XDP program, or on the way to a transport that has none.
pub(super) const LOST_ON_PURPOSE: [&str; 2] = ["xdp_lost_on_purpose", "faulty_dropped"];
/// What is counted of a node, for the report.
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

/// A node on this side.
pub(super) fn node(plan: &Plan, watch: &Watch) -> Result<Node, Error> {
    let Plan { how, lost_per_million, recipe, .. } = *plan;
    let which = matches!(plan.role, Role::Receiver { .. }) as usize;
    // Another fate for each side.
    let losses = Losses { per_million: lost_per_million, seed: recipe.seed.wrapping_add(which as u64) };
    let (transport, _) = open(&plan.on, how, losses, watch)?;
    let name = NODES[which];
    let builder = Node::builder(name).coalesce(how.bundles);
    let builder = match how.framing.fixed() {
        Some(framing) => builder.framing(framing),
        None => builder,
    };
    builder.open_on(transport).map_err(facility)
}

pub(super) fn facility(error: impl ToString) -> Error {
    Error::Facility(error.to_string())
}

pub(super) fn say(line: &Line) -> Result<(), Error> {
    write_line(&mut stdout(), line)
}

/// What this process tells while it goes on.
pub(super) struct Telling {
    arrived: u64,
    last: Instant,
    complete: bool,
}

impl Telling {
    pub(super) fn new() -> Telling {
        Telling { arrived: 0, last: Instant::now(), complete: false }
    }

    /// So many have arrived by now, and whether that is all.
    pub(super) fn tell(&mut self, arrived: u64, complete: bool) -> Result<(), Error> {
        if self.complete || !complete && self.last.elapsed() < TELL {
            return Ok(());
        }
        say(&Line::Arrived(arrived - self.arrived))?;
        (self.arrived, self.last, self.complete) = (arrived, Instant::now(), complete);
        if complete { say(&Line::Complete) } else { Ok(()) }
    }
}

/// The last word.
pub(super) fn conclude(node: &Node, outcome: Outcome) -> Result<(), Error> {
    let counters = node.counters();
    let counters: BTreeMap<String, u64> = COUNTED.map(|name| (name.to_owned(), counters.get(name))).into();
    say(&Line::Outcome(Outcome { counters, ..outcome }))?;
    sleep(STAYS);
    Ok(())
}
