//! Steering for transports without a kernel's program that does it.

use wire::steer::{Decision, Pass, Table, steer};
use wire::{Address, EtherType, Flow, Reason, frame};

/// [`wire::steer::steer`] with its table, counting what it turns away. A
/// transport is one socket, so a flow is open or it is not.
#[derive(Debug)]
pub struct Steering {
    /// On the heap: it has a byte for each of the 16,384 flow ids.
    table: Box<Table>,
    passed: [u64; 2],
    dropped: [u64; Reason::ALL.len()],
    stray: Option<Flow>,
    /// Whatever arrives was sent to this place.
    to_this_place: bool,
}

/// The socket's index, and what the table has for its flows.
const SOCKET: u8 = 0;
const OPEN: u8 = SOCKET + 1;

impl Steering {
    /// Lets in the control frames of this node.
    pub fn new(ethertype: EtherType, own: Address) -> Steering {
        let table = Table { node_socket: SOCKET, ..Table::new(ethertype, own) };
        let (passed, dropped) = ([0; 2], [0; Reason::ALL.len()]);
        Steering { table: Box::new(table), passed, dropped, stray: None, to_this_place: false }
    }

    /// For a socket with a place of its own, whose address is another in each run: what is sent there, and is not for `own`,
    /// is for an earlier run. Its sender is to hear of this one, and so it is a stray, on no flow.
    pub fn at_a_place(ethertype: EtherType, own: Address) -> Steering {
        Steering { to_this_place: true, ..Steering::new(ethertype, own) }
    }

    /// Whether a frame that arrived is for us. If not, it has been counted.
    #[inline]
    pub fn admits(&mut self, frame: &[u8]) -> bool {
        match steer(frame, &self.table) {
            // Where there is no program the host returns what it has no room for.
            Decision::Socket(_) | Decision::Bounce(_) => return true,
            Decision::Pass(why) => self.pass(why),
            Decision::Drop(why) => self.drop(why, frame),
        }
        false
    }

    #[cold]
    fn pass(&mut self, why: Pass) {
        self.passed[why as usize] += 1;
        if self.to_this_place && matches!(why, Pass::OtherHost) {
            self.stray = self.stray.or(Some(Flow::NODE));
        }
    }

    #[cold]
    fn drop(&mut self, why: Reason, frame: &[u8]) {
        self.dropped[why as usize] += 1;
        if why == Reason::NoFlow
            && let Ok(parsed) = frame::parse(frame, self.table.ethertype)
        {
            self.stray = Some(parsed.header.flow);
        }
    }

    /// As [`Transport::stray`](crate::Transport::stray).
    pub fn stray(&mut self) -> Option<Flow> {
        self.stray.take()
    }

    /// As [`Transport::steer`](crate::Transport::steer).
    pub fn set(&mut self, flow: Flow, open: bool) {
        self.table.flows[flow.index()] = if open { OPEN } else { 0 };
    }

    /// Name and value of each counter.
    pub fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("steer_pass_foreign", self.passed[Pass::Foreign as usize]);
        each("steer_pass_other_host", self.passed[Pass::OtherHost as usize]);
        for (reason, name) in DROPS {
            each(name, self.dropped[reason as usize]);
        }
    }
}

/// What steering can see. The other reasons are the protocol's to count.
const DROPS: [(Reason, &str); 7] = [
    (Reason::Short, "steer_drop_short"),
    (Reason::Source, "steer_drop_bad_source"),
    (Reason::Version, "steer_drop_unknown_version"),
    (Reason::Kind, "steer_drop_unknown_kind"),
    (Reason::NoFlow, "steer_drop_unknown_flow"),
    (Reason::NodeFlow, "steer_drop_misused_flow_zero"),
    (Reason::Length, "steer_drop_bad_length"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_reasons() {
        for (reason, name) in DROPS {
            assert_eq!(name.strip_prefix("steer_drop_"), Some(reason.name()));
        }
    }
}
