//! When each node of a network runs next, and what holds of its frames until then.

use super::Checked;
use super::frames::{self, BetweenTurns};
use crate::clock::Nanos;
use crate::net::{Net, NodeEvent};

/// The next turn of each node.
#[derive(Clone, Debug)]
pub struct Turns(Vec<Turn>);

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Alarms for another time are stale.
    next: Nanos,
    /// The node is stalled, or works, until then.
    not_before: Nanos,
    /// The frames of its NIC at the end of its last turn.
    between: Option<BetweenTurns>,
}

impl Turn {
    const NONE: Turn = Turn { next: Nanos::MAX, not_before: 0, between: None };
}

impl Turns {
    /// For the nodes of this network: none is scheduled.
    pub fn of(net: &Net) -> Turns {
        Turns(vec![Turn::NONE; net.options().nodes])
    }

    /// Schedule a turn for this time, unless an earlier one is scheduled. A node that is busy has it later.
    pub fn schedule(&mut self, net: &mut Net, at: usize, when: Nanos) {
        let turn = &mut self.0[at];
        let when = when.max(turn.not_before).max(net.now());
        if when < turn.next {
            turn.next = when;
            net.alarm(when, at);
        }
    }

    /// Whether the node's turn begins with this alarm. Otherwise the alarm is stale.
    pub fn begin(&mut self, net: &Net, at: usize) -> bool {
        let begins = self.0[at].next == net.now();
        if begins {
            self.cancel(at);
        }
        begins
    }

    /// The node has no turn before this time.
    pub fn busy_until(&mut self, at: usize, until: Nanos) {
        self.0[at].not_before = until;
    }

    /// Whether the node is busy now.
    pub fn is_busy(&self, net: &Net, at: usize) -> bool {
        net.now() < self.0[at].not_before
    }

    /// The node does not run until then, whatever was scheduled.
    pub fn stall(&mut self, net: &mut Net, at: usize, until: Nanos) {
        self.busy_until(at, until);
        self.cancel(at);
        self.schedule(net, at, until);
    }

    /// No turn is scheduled.
    pub fn cancel(&mut self, at: usize) {
        self.0[at].next = Nanos::MAX;
    }

    /// The node starts anew, now.
    pub fn start(&mut self, net: &mut Net, at: usize) {
        self.0[at] = Turn::NONE;
        self.schedule(net, at, net.now());
    }

    /// Check the frames and the memory after an event of the network, before its node handles it.
    ///
    /// # Errors
    /// Frames have moved since the node's last turn, or something is over its bound.
    pub fn check(&self, net: &mut Net, at: usize, happening: Option<NodeEvent>) -> Checked {
        if happening != Some(NodeEvent::Death(at))
            && let Some(between) = self.0[at].between
        {
            between.check(net.nic(at))?;
        }
        frames::check_bounds(net, at)
    }

    /// Record where the frames are when the node has handled an event.
    pub fn record(&mut self, net: &mut Net, at: usize) {
        self.0[at].between = Some(BetweenTurns::record(net.nic(at)));
    }
}
