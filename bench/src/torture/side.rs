//! What both processes do alike.

use std::collections::BTreeMap;
use std::io::stdout;
use std::time::{Duration, Instant};

use afxdp::Options;
use am_api::{Handler, Node};

use super::children::Line;
use super::verdict::Outcome;
use super::{INTERFACE, NODES, Plan, Role};
use crate::deploy::pipe::write_line;
use crate::error::Error;

pub(super) const ENDPOINT: &str = "torture";
pub(super) const DATA: Handler = Handler(0);
pub(super) const ASK: Handler = Handler(1);
pub(super) const ANSWER: Handler = Handler(2);

/// How much has arrived is told so often.
const TELL: Duration = Duration::from_millis(200);
/// What is counted of a node, for the report.
const COUNTED: [&str; 9] = [
    "xdp_lost_on_purpose",
    "retransmitted",
    "timeouts",
    "fast_retransmits",
    "duplicates",
    "rejects_sent",
    "bundles_sent",
    "bundled_sent",
    "returned",
];

/// A node on this end of the cable.
pub(super) fn node(plan: &Plan) -> Result<Node, Error> {
    let Plan { how, lost_per_million, .. } = *plan;
    let options = Options { attach: how.xdp.attach(), lost_per_million, ..Options::new(INTERFACE) };
    let name = NODES[matches!(plan.role, Role::Receiver { .. }) as usize];
    let builder = Node::builder(name).bundles(how.bundles);
    let builder = match how.framing.fixed() {
        Some(framing) => builder.framing(framing),
        None => builder,
    };
    builder.open(Box::new(afxdp::open(&options)?)).map_err(facility)
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
    say(&Line::Outcome(Outcome { counters, ..outcome }))
}
