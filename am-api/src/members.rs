//! Events about members, queued until the endpoints that watch are polled.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use am_proto::{EndpointId, Member, MemberChange};
use am_wire::control::NodeId;
use derive_where::derive_where;

use crate::Endpoint;

/// What [`Endpoint::on_members`]'s handler gets.
#[derive_where(Clone, Copy, Debug)]
pub struct MemberEvent<'a, S> {
    /// What happened.
    pub change: MemberChange,
    /// The node that it happened to; if it left, as it was.
    pub member: Member,
    /// The endpoint: handlers connect and send through it.
    #[derive_where(skip)]
    pub endpoint: &'a Endpoint<S>,
}

impl<S> fmt::Display for MemberEvent<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Member { peer, max_frame, framing } = self.member;
        match self.change {
            MemberChange::Joined => write!(f, "{} joined, at {}", peer.name, peer.address),
            MemberChange::Changed => {
                write!(f, "{} is at {}, frames of {max_frame} bytes", peer.name, peer.address)?;
                framing.map_or(Ok(()), |framing| write!(f, ", {framing} framing"))
            }
            MemberChange::Left(why) => write!(f, "{}: {why}", peer.name),
        }
    }
}

impl<S> Endpoint<S> {
    /// Run this when a node of the segment joins, changes or leaves, beginning with those that are there. The node asks members
    /// that were silent, and so notices a crash within two seconds; [`Builder::member_timeout`](crate::Builder::member_timeout)
    /// changes that. Connections are not affected: they end as [`on_connection`](Endpoint::on_connection) reports.
    ///
    /// ```
    /// use am_api::{MemberChange, Node};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (alpha, beta) = (Node::open("alpha", "sim:5")?, Node::open("beta", "sim:5")?);
    /// let (mut watches, mut other) = (alpha.endpoint::<bool>("main")?, beta.endpoint::<()>("main")?);
    /// watches.on_members(|is_there, event| *is_there = event.change == MemberChange::Joined);
    /// let mut is_there = false;
    /// while !is_there {
    ///     watches.poll(&mut is_there);
    ///     other.poll(&mut ());
    /// }
    /// assert_eq!(alpha.members()[0].peer.name.as_str(), "beta");
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_members(&mut self, run: impl FnMut(&mut S, MemberEvent<'_, S>) + 'static) {
        let mut node = self.node.borrow_mut();
        node.core().watch_members();
        let present = node.engine.core().members().collect();
        node.members.add(self.id, present);
        drop(node);
        self.handlers.get_mut().members = Some(Box::new(run));
    }
}

/// Events that wait for their endpoint to be polled. Only endpoints that watch have a queue.
///
/// An endpoint that is not polled has a bounded number: of a member that came and went unseen nothing is left.
#[derive(Debug, Default)]
pub(crate) struct MemberQueues {
    queues: BTreeMap<EndpointId, MemberQueue>,
    /// Events in all of them: each turn looks at this.
    count: usize,
}

/// From here on events that cancel each other out are dropped.
const MAX_QUEUED: usize = 1024;

impl MemberQueues {
    /// This endpoint watches from now on, and these members are there.
    pub(crate) fn add(&mut self, endpoint: EndpointId, present: Vec<Member>) {
        if !self.queues.contains_key(&endpoint) {
            self.count += present.len();
            let joined = |member| (member, MemberChange::Joined);
            self.queues.insert(endpoint, MemberQueue(present.into_iter().map(joined).collect()));
        }
    }

    pub(crate) fn remove(&mut self, endpoint: EndpointId) {
        self.count -= self.queues.remove(&endpoint).map_or(0, |queue| queue.0.len());
    }

    pub(crate) fn push(&mut self, member: Member, change: MemberChange) {
        for queue in self.queues.values_mut() {
            self.count -= queue.0.len();
            queue.push(member, change);
            self.count += queue.0.len();
        }
    }

    /// Whether no endpoint has an event.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The next event of this endpoint.
    pub(crate) fn pop(&mut self, endpoint: EndpointId) -> Option<(Member, MemberChange)> {
        let event = self.queues.get_mut(&endpoint)?.0.pop_front()?;
        self.count -= 1;
        Some(event)
    }
}

/// The events of one endpoint, the oldest first.
#[derive(Debug, Default)]
struct MemberQueue(VecDeque<(Member, MemberChange)>);

impl MemberQueue {
    fn push(&mut self, member: Member, change: MemberChange) {
        let change = if self.0.len() < MAX_QUEUED { Some(change) } else { self.combine(member.peer.node, change) };
        self.0.extend(change.map(|change| (member, change)));
    }

    /// Drop the queued events of a node that the new one makes obsolete. Returns what to queue in its place.
    fn combine(&mut self, node: NodeId, change: MemberChange) -> Option<MemberChange> {
        let first = self.0.iter().position(|(member, _)| member.peer.node == node);
        let was = first.map(|at| self.0[at].1);
        let kept = first.filter(|_| matches!(was, Some(MemberChange::Left(_))));
        let mut at = 0;
        self.0.retain(|(member, _)| {
            at += 1;
            member.peer.node != node || kept == Some(at - 1)
        });
        match (was, change) {
            (Some(MemberChange::Joined | MemberChange::Left(_)), MemberChange::Left(_)) => None,
            (Some(MemberChange::Joined | MemberChange::Left(_)), _) => Some(MemberChange::Joined),
            _ => Some(change),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use am_proto::{Departure, Peer};
    use am_wire::Address;
    use am_wire::control::{Incarnation, Name};

    use super::*;

    const LEFT: MemberChange = MemberChange::Left(Departure::Silent);

    fn member(node: u64) -> Member {
        let name = Name::new(&format!("n{node}")).unwrap();
        let peer = Peer { node: NodeId(node), incarnation: Incarnation(1), name, address: Address::from_u64(node) };
        Member { peer, max_frame: 1514, framing: None }
    }

    #[test]
    fn an_endpoint_that_is_not_polled_has_few_events_and_misses_nothing() {
        let (mut queue, nodes) = (MemberQueue::default(), 1200);
        let before: BTreeMap<u64, bool> = (0..nodes).map(|node| (node, node % 2 == 0)).collect();
        let mut is_present = before.clone();
        for turn in 0..30_000_u64 {
            let node = turn * 7919 % nodes;
            let change = match is_present[&node] {
                true if turn % 3 == 0 => MemberChange::Changed,
                true => LEFT,
                false => MemberChange::Joined,
            };
            is_present.insert(node, change != LEFT);
            queue.push(member(node), change);
        }
        assert!(queue.0.len() <= MAX_QUEUED + 2 * nodes as usize, "{}", queue.0.len());
        let mut told = before;
        for (member, change) in queue.0 {
            let node = member.peer.node.0;
            let was_present = told.insert(node, change != LEFT);
            assert_eq!(was_present, Some(change != MemberChange::Joined), "{node}: {change:?}");
        }
        assert_eq!(told, is_present);
    }
}
