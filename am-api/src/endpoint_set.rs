//! Endpoint sets: several endpoints of a node that are polled together. A turn serves those that have messages, by weighted round
//! robin (AM-II, "Endpoint scheduler").

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use am_engine::PollScope;
use am_proto::{EndpointId, Time};

use crate::node_state::NodeRc;
use crate::{BUDGET, Endpoint, Message, Node};

/// Endpoints of one node whose handlers work on one state, polled in one turn. Endpoints without messages are skipped: thousands of idle
/// endpoints do not make a turn more expensive.
///
/// An endpoint that has messages is *visited*: [`VISIT`](EndpointSet::VISIT) times its [weight](Endpoint::set_weight) of its messages
/// are handled, if necessary in several turns, before the next endpoint with messages is visited. A visit also ends when the endpoint
/// has no message and another one has. While none has, the visit waits for more messages (it *loiters*).
///
/// ```
/// use am_api::{EndpointSet, HandlerId, Node};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = Node::open("alpha", "sim:9")?;
/// let mut set = EndpointSet::new(&node);
/// for name in ["control", "data"] {
///     let mut endpoint = node.endpoint::<u64>(name)?;
///     endpoint.on_request(HandlerId(0), |count, _| *count += 1);
///     endpoint.set_weight(if name == "control" { 4 } else { 1 });
///     set.insert(endpoint).map_err(|_| "of another node")?;
/// }
/// let mut count = 0;
/// set.poll(&mut count);
/// set.get("data").ok_or("not there")?.set_weight(2);
/// # Ok(())
/// # }
/// ```
pub struct EndpointSet<S> {
    node: NodeRc,
    /// The endpoints, by the index of their ids.
    members: Vec<Option<Endpoint<S>>>,
    /// The endpoints that have messages, or had some lately. The first one is visited.
    warm: VecDeque<EndpointId>,
    /// The version of the core's list from which `warm` was made.
    seen: Option<u64>,
    /// How many more messages this visit may handle.
    left: usize,
    turns: u32,
    visits: u64,
    looks: u64,
}

impl<S> EndpointSet<S> {
    /// Messages of a visit to an endpoint of weight 1: the paper's 2^k, with k = 5.
    pub const VISIT: usize = 32;

    /// How many turns there are between two checks for calls whose deadline has passed.
    const LOOK_EVERY: u32 = 16;

    /// A set of endpoints of this node.
    pub fn new(node: &Node) -> Self {
        let (members, warm) = (Vec::new(), VecDeque::new());
        EndpointSet { node: node.state.clone(), members, warm, seen: None, left: 0, turns: 0, visits: 0, looks: 0 }
    }

    /// Add an endpoint. Returns its index in this set. Once it is removed, another endpoint may get the index.
    ///
    /// # Errors
    /// The endpoint belongs to another node. The error returns the endpoint.
    #[expect(clippy::result_large_err, reason = "the error returns the endpoint")]
    pub fn insert(&mut self, endpoint: Endpoint<S>) -> Result<usize, Endpoint<S>> {
        if !self.node.is_same(&endpoint.node) {
            return Err(endpoint);
        }
        let at = endpoint.id.index();
        if self.members.len() <= at {
            self.members.resize_with(at + 1, || None);
        }
        self.members[at] = Some(endpoint);
        self.seen = None;
        Ok(at)
    }

    /// The endpoint of this index.
    pub fn member(&self, index: usize) -> Option<&Endpoint<S>> {
        self.members.get(index)?.as_ref()
    }

    /// Take the endpoint of this index out of the set.
    pub fn remove_member(&mut self, index: usize) -> Option<Endpoint<S>> {
        self.members.get_mut(index)?.take()
    }

    /// Take an endpoint out of the set.
    pub fn remove(&mut self, name: &str) -> Option<Endpoint<S>> {
        self.members.iter_mut().find(|member| member.as_ref().is_some_and(|member| member.name() == name))?.take()
    }

    /// The endpoint of this name.
    pub fn get(&mut self, name: &str) -> Option<&mut Endpoint<S>> {
        self.members.iter_mut().flatten().find(|member| member.name() == name)
    }

    /// Its endpoints.
    pub fn iter(&self) -> impl Iterator<Item = &Endpoint<S>> {
        self.members.iter().flatten()
    }

    /// How often the set has served an endpoint, and how often it has skipped one without messages: the overhead of several endpoints.
    pub fn visits_and_looks(&self) -> (u64, u64) {
        (self.visits, self.looks)
    }

    /// One turn of the node's loop, as [`Endpoint::poll`], for all endpoints of the set: at most [`BUDGET`] messages. Returns how many
    /// messages and events were handled. Every 16th turn checks the deadlines of calls.
    pub fn poll(&mut self, state: &mut S) -> usize {
        self.turn(state).0
    }

    /// Poll until a message or an event has been handled, the time is over, or a [waker](Node::waker) ends it; spin, yield or sleep
    /// meanwhile. Returns how many were handled.
    pub fn wait(&mut self, state: &mut S, timeout: Duration) -> usize {
        let mut until = None;
        loop {
            let (handled, is_busy) = self.turn(state);
            let now = self.node.borrow().now();
            let until = *until.get_or_insert(now + timeout);
            let calls = self.next_call_check();
            let Some(first) = self.members.iter_mut().flatten().next() else { return handled };
            if handled > 0 || now >= until || std::mem::take(&mut first.is_woken) {
                return handled;
            }
            if is_busy {
                first.idle.busy();
            } else {
                first.rest(until.min(calls));
            }
            if now >= calls {
                self.turns = 0;
            }
        }
    }

    /// Returns the messages and events handled, and whether anything happened at all.
    fn turn(&mut self, state: &mut S) -> (usize, bool) {
        let mut node = self.node.borrow_mut();
        let received = node.inhale(PollScope::Everything);
        let has_events = node.has_news() || node.has_bulk();
        let (has_messages, now) = (node.engine.core().has_deliveries(), node.engine.core().now());
        drop(node);
        let mut handled = 0;
        if has_events || self.turns.is_multiple_of(Self::LOOK_EVERY) {
            let members = self.iter().filter(|member| has_events || member.shared.calls.borrow().next_check() <= now);
            handled = members.map(|member| member.dispatch_events(state)).sum();
        }
        self.turns = self.turns.wrapping_add(1);
        if has_messages {
            handled += self.serve(state);
        }
        if has_events && self.node.borrow().engine.core().has_bulk() {
            handled += self.iter().map(|member| member.dispatch_segments(state)).sum::<usize>();
        }
        let sent = self.node.borrow_mut().exhale();
        (handled, received + handled + sent > 0)
    }

    /// Receive, and pass at most [`BUDGET`] messages to `run`, each with its endpoint's index, instead of to handlers. `run` cannot reply,
    /// so no frames are set aside for replies. Other handlers (of connections, members, returned messages) run as usual. Endpoints of such
    /// a set must not make [calls](Endpoint::try_call). Returns how many messages and events were handled.
    ///
    /// If nothing was handled, this is a whole turn. Otherwise it is the first half, which sends nothing: call [`Endpoint::flush`] after
    /// the program has sent its own messages. With [`PollScope::FramesOnly`] the turn is shorter, and checks no deadlines: a program that
    /// spins uses it for most calls.
    ///
    /// ```
    /// use am_api::{EndpointSet, PollScope};
    ///
    /// /// The lengths of messages, by endpoint.
    /// fn lengths(set: &mut EndpointSet<Vec<(usize, usize)>>, all: &mut Vec<(usize, usize)>) {
    ///     let note = |all: &mut Vec<_>, index, message: &am_api::Message<'_, _>| all.push((index, message.payload().len()));
    ///     set.receive_each(PollScope::Everything, all, note);
    /// }
    /// ```
    #[inline]
    pub fn receive_each(
        &mut self,
        scope: PollScope,
        state: &mut S,
        mut run: impl FnMut(&mut S, usize, &Message<'_, S>),
    ) -> usize {
        let mut node = self.node.borrow_mut();
        let received = node.inhale(scope);
        let (has_events, has_messages) = (node.has_news() || node.has_bulk(), node.engine.core().has_deliveries());
        if !(has_events || has_messages) {
            if received > 0 || scope == PollScope::Everything || node.engine.core().has_output() {
                node.exhale();
            } else if let Some(waiter) = &node.waiter {
                waiter.note_spin();
            }
            return 0;
        }
        drop(node);
        let mut events = if has_events { self.dispatch_events_and(state, &mut run) } else { 0 };
        let mut handled = 0;
        if has_messages {
            self.find_warm();
            for _ in 0..self.warm.len() {
                let (taken, has_more) = self.first_each(state, BUDGET - handled, &mut run);
                handled += taken;
                if !has_more {
                    break;
                }
                self.warm.rotate_left(1);
                if handled == BUDGET {
                    break;
                }
            }
        }
        if has_events && self.node.borrow().engine.core().has_bulk() {
            events += self.dispatch_segments_and(state, &mut run);
        }
        if events + handled == 0 {
            self.node.borrow_mut().exhale();
        }
        events + handled
    }

    /// Pass the messages of the first warm endpoint to `run`.
    #[inline]
    fn first_each(
        &mut self,
        state: &mut S,
        most: usize,
        run: &mut impl FnMut(&mut S, usize, &Message<'_, S>),
    ) -> (usize, bool) {
        let Some(index) = self.warm.front().map(|id| id.index()) else { return (0, true) };
        let Some(Some(endpoint)) = self.members.get(index) else { return (0, true) };
        let most = most.min(Self::VISIT * usize::from(endpoint.weight()));
        endpoint.take_each(most, |message| run(state, index, message))
    }

    /// Events, and the long messages that are complete.
    #[cold]
    fn dispatch_events_and(&self, state: &mut S, run: &mut impl FnMut(&mut S, usize, &Message<'_, S>)) -> usize {
        let members = self.members.iter().enumerate().filter_map(|(index, member)| Some((index, member.as_ref()?)));
        members
            .map(|(index, member)| member.dispatch_events_and(state, |state, message| run(state, index, message)))
            .sum()
    }

    /// Segments that waited for the heads of their messages.
    #[cold]
    fn dispatch_segments_and(&self, state: &mut S, run: &mut impl FnMut(&mut S, usize, &Message<'_, S>)) -> usize {
        let members = self.members.iter().enumerate().filter_map(|(index, member)| Some((index, member.as_ref()?)));
        members
            .map(|(index, member)| member.dispatch_segments_and(state, |state, message| run(state, index, message)))
            .sum()
    }

    /// Visit endpoints until the turn's budget is used, or no endpoint has a message that can be handled now.
    fn serve(&mut self, state: &mut S) -> usize {
        self.find_warm();
        let (mut handled, mut skipped) = (0, 0);
        while skipped < self.warm.len() {
            skipped += self.skip_empty();
            let most = self.left.min(BUDGET - handled);
            let count = self.first().map_or(0, |endpoint| endpoint.dispatch_messages(state, most));
            (handled, self.left) = (handled + count, self.left - count);
            let is_visit_over = self.left == 0 || self.node.borrow().engine.core().has_deliveries();
            if handled == BUDGET && self.left > 0 || !is_visit_over {
                break;
            }
            self.warm.rotate_left(1);
            self.begin_visit();
            skipped = if count > 0 { 0 } else { skipped + 1 };
            if handled == BUDGET {
                break;
            }
        }
        handled
    }

    /// Bring an endpoint with messages to the front. Returns how many endpoints without messages it skipped.
    fn skip_empty(&mut self) -> usize {
        let mut node = self.node.borrow_mut();
        let core = node.engine.core_mut();
        let found = self.warm.iter().position(|id| core.has_deliveries_to(*id));
        drop(node);
        let empty = found.unwrap_or(0);
        self.visits += 1;
        self.looks += empty as u64;
        if empty > 0 {
            self.warm.rotate_left(empty);
            self.begin_visit();
        }
        empty
    }

    fn first(&self) -> Option<&Endpoint<S>> {
        self.members.get(self.warm.front()?.index())?.as_ref()
    }

    fn begin_visit(&mut self) {
        self.left = Self::VISIT * self.first().map_or(1, |endpoint| usize::from(endpoint.weight()));
    }

    /// Bring `warm` up to date. Endpoints that stay in it keep their order.
    fn find_warm(&mut self) {
        let node = self.node.borrow();
        let (changes, ids) = node.engine.core().warm_endpoints();
        if self.seen == Some(changes) {
            return;
        }
        self.seen = Some(changes);
        let mut is_warm = vec![false; self.members.len()];
        let its = |id: &EndpointId| self.members.get(id.index()).is_some_and(Option::is_some);
        let ids: Vec<EndpointId> = ids.filter(its).collect();
        ids.iter().for_each(|id| is_warm[id.index()] = true);
        let first = self.warm.front().copied();
        // Only the first mention of each stays, and marks it as listed.
        self.warm.retain(|id| its(id) && std::mem::take(&mut is_warm[id.index()]));
        self.warm.extend(ids.into_iter().filter(|id| is_warm[id.index()]));
        drop(node);
        if self.warm.front().copied() != first {
            self.begin_visit();
        }
    }

    fn next_call_check(&self) -> Time {
        self.iter().map(|member| member.shared.calls.borrow().next_check()).min().unwrap_or(Time::NEVER)
    }
}

impl<S> fmt::Debug for EndpointSet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
