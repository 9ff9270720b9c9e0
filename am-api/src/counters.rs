//! Everything counted, from the transport to this layer.

use std::fmt;

use crate::node_state::NodeState;

/// A snapshot of every counter of a node: names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(Vec<(&'static str, u64)>);

impl Counters {
    pub(crate) fn of(node: &NodeState) -> Counters {
        let mut all = vec![("unhandled", node.tally.unhandled), ("no_reply_frame", node.tally.no_reply_frame)];
        all.push(("late_answers", node.tally.late_answers));
        let bulk = node.bulk.counters;
        all.extend([("bulk_segments_sent", bulk.sent), ("bulk_segments_deposited", bulk.deposited)]);
        all.extend([("bulk_refused", bulk.refused), ("bulk_senseless", bulk.senseless)]);
        node.engine.core().counters().each(&mut |name, value| all.push((name, value)));
        node.transport.counters(&mut |name, value| all.push((name, value)));
        Counters(all)
    }

    /// The counter of this name; 0 where there is none.
    pub fn get(&self, name: &str) -> u64 {
        self.iter().filter(|(each, _)| *each == name).map(|(_, value)| value).sum()
    }

    /// All of them: this layer's, the protocol's, the transport's.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }
}

impl fmt::Display for Counters {
    /// Those that have counted something, one a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().filter(|(_, value)| *value > 0).try_for_each(|(name, value)| writeln!(f, "{name:24} {value:>12}"))
    }
}
