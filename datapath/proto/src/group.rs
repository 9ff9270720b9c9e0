//! Groups: several nodes under one name, each on a thread of its own. The first member has the group's name. When a peer
//! asks it for a flow, it answers with the name of another member, and the peer asks that one.
//!
//! ```text
//!   alpha                      server            server#1
//!     │ Connect to "server" ─────▶│                  │
//!     │◀──────────── Refuse: #1 ──│                  │
//!     │ Connect to "server#1" ──────────────────────▶│
//!     │◀───────────────────────────────────── Accept │
//! ```
//!
//! A peer may not reach each member: if several have queues of one interface, its frames may all arrive on one queue. So
//! a peer leaves a silent member. It asks the first member again, which then accepts the flow itself. If the first one is
//! silent, the peer asks any other member that it has met. It remembers which members were silent, and probes them.

use am_wire::control::{Connect, Name, Refusal};
use am_wire::{Address, Buffer};

use crate::FlowId;
use crate::config::{ChooseMember, Placement};
use crate::flow::{AskedMember, Phase};
use crate::node::Core;
use crate::peers::Path;
use crate::time::Time;

impl<B: Buffer> Core<B> {
    /// From above: this node is the first of a group. Peers that ask it for a flow from now on are given to the member that
    /// `choose` names. That member's node has the name [`Name::member`].
    pub fn place_peers(&mut self, choose: ChooseMember) {
        self.placement = Placement::new(choose);
    }

    /// The connections of this node: asked for, open and closing.
    pub fn connection_count(&self) -> usize {
        self.flows.len()
    }

    /// The refusal that names another member of the group. `None` if this node accepts the flow itself.
    pub(crate) fn other_member(&mut self, question: &Connect, peer: Name) -> Option<Refusal> {
        let attempt = (question.node, question.incarnation, question.id);
        self.placement.member(attempt, peer).filter(|member| *member != 0).map(Refusal::Member)
    }

    /// The peer is the first of a group, and names the member to ask instead. `false` if there is no such member: the peer
    /// is in no group, or the member is this node.
    pub(crate) fn follow_to_member(&mut self, now: Time, id: FlowId, member: u8) -> bool {
        let Some(record) = self.flows.get_mut(id) else { return false };
        let Some(name) = record.peer.node_name.member(member).filter(|name| *name != self.config.name) else {
            return false;
        };
        self.counters.redirected += 1;
        match self.discovery.peers.by_name(name).filter(|at| self.discovery.peers.records[*at].is_unresponsive) {
            // This member was silent before. Probe it: if it answers, the next flow goes there.
            Some(at) => {
                _ = self.path_to(now, at);
                self.ask_number(id, 0, true);
            }
            None => self.ask_number(id, member, false),
        }
        true
    }

    /// Ask this member of the peer's group from now on.
    fn ask_number(&mut self, id: FlowId, member: u8, no_redirect: bool) {
        let Some(record) = self.flows.get_mut(id) else { return };
        let group = group_of(record.peer.node_name, record.asked().number());
        let Some(name) = group.and_then(|group| member_of(group, member)) else { return };
        (record.peer.node_name, record.peer.node) = (name, None);
        record.phase = Phase::Connecting(AskedMember::new(member, no_redirect));
        record.setup.tries = 0;
        // A repeated answer of the member that was asked before finds no flow that waits for it.
        record.route_to(Address::default());
    }

    /// The member that a flow asks for was silent for long. Ask the first one again, which answered, or where that is silent,
    /// any that was met.
    #[cold]
    pub(crate) fn leave_silent_member(&mut self, now: Time, id: FlowId) {
        let Some(record) = self.flows.get(id) else { return };
        let (name, asked) = (record.peer.node_name, record.asked());
        let known = self.discovery.peers.by_name(name);
        let is_answered =
            |at: usize| matches!(&self.discovery.peers.records[at].path, Path::Probing(it) if it.is_answered());
        if known.is_some_and(is_answered) {
            return;
        }
        let Some(next) = group_of(name, asked.number()).and_then(|group| self.next_member(group, asked)) else {
            return;
        };
        if let Some(at) = known {
            // Probing it again, for a later flow, shows whether it answers.
            self.discovery.peers.records[at].is_unresponsive = true;
            self.forget_path_at(at);
            _ = self.path_to(now, at);
        }
        self.counters.members_given_up += 1;
        self.ask_number(id, next, true);
    }

    /// The member to ask after this one.
    fn next_member(&self, group: Name, asked: AskedMember) -> Option<u8> {
        let is_met = |number: &u8| {
            let name = member_of(group, *number).filter(|name| *name != self.config.name);
            name.is_some_and(|name| self.discovery.peers.by_name(name).is_some())
        };
        let (asked, no_redirect) = (asked.number(), asked.no_redirect());
        if asked != 0 && !no_redirect {
            return Some(0);
        }
        (asked + 1..=Refusal::MAX_MEMBER).chain(0..asked).find(is_met)
    }
}

/// The name of a group, whose member with this number has this name.
fn group_of(name: Name, number: u8) -> Option<Name> {
    if number == 0 { Some(name) } else { name.group_of_member(number) }
}

/// The name of a group's member.
fn member_of(group: Name, number: u8) -> Option<Name> {
    if number == 0 { Some(group) } else { group.member(number) }
}
