//! Events about members, queued until the watching endpoints are polled.

use std::collections::{BTreeMap, VecDeque};

use am_proto::{EndpointId, Member, MemberChange};
use am_wire::control::NodeId;

/// Events that wait for their endpoint to be polled. Only watching endpoints have a queue.
///
/// A queue is bounded, even if its endpoint is not polled: when it is long, the events of a member that joined and left cancel each other.
#[derive(Debug, Default)]
pub(crate) struct MemberQueues {
    queues: BTreeMap<EndpointId, MemberQueue>,
    /// The number of events in all queues. Each turn reads it.
    count: usize,
}

/// In a queue of this length, events that cancel each other are dropped.
const MAX_QUEUED: usize = 1024;

impl MemberQueues {
    /// This endpoint watches from now on, and these members are present.
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

    /// Whether this endpoint has an event.
    pub(crate) fn has(&self, endpoint: EndpointId) -> bool {
        self.queues.get(&endpoint).is_some_and(|queue| !queue.0.is_empty())
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
        let mut reported = before;
        for (member, change) in queue.0 {
            let node = member.peer.node.0;
            let was_present = reported.insert(node, change != LEFT);
            assert_eq!(was_present, Some(change != MemberChange::Joined), "{node}: {change:?}");
        }
        assert_eq!(reported, is_present);
    }
}
