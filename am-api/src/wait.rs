//! Waiting: a blocking call, a descriptor for a loop of the program's own, and a poll for async executors. All three advance the
//! protocol.
//!
//! | | ends for | runs handlers |
//! | --- | --- | --- |
//! | [`wait`](Endpoint::wait), [`wait_until`](Endpoint::wait_until) | a handled message or event | yes |
//! | [`wait_events`](Endpoint::wait_events) | an event of the mask | no: [`poll`](Endpoint::poll) does |
//! | [`descriptor`](Endpoint::descriptor) with [`poll_events`](Endpoint::poll_events) | an event of the mask | no |
//! | [`poll_ready`](Endpoint::poll_ready), on that descriptor | an event of the mask | no |
//! | [`descriptor`](Endpoint::descriptor) with [`prepare_wait`](Endpoint::prepare_wait) | any work for the node | no |
//!
//! # Level and edge
//!
//! An event is a state (level-triggered): while a message waits for its handler, each call returns [`Events::MESSAGES`]. Two events
//! are returned only once: [`Events::CAN_SEND`], once for each connection on which a request would have blocked, and
//! [`Events::WOKEN`], once for all wakes before.
//!
//! The descriptor is valid only after `poll_events` has returned no event, or `prepare_wait` has returned `true`. That call prepares
//! the transport for a sleep, clears the timer and the waker, and checks once more for frames. So a level-triggered loop (`epoll`,
//! `poll`) finds the descriptor unreadable, and an edge-triggered one (`EPOLLET`, tokio's `AsyncFd`) misses nothing. A readable
//! descriptor shows only that the node has work, which need not be an event of the mask: call `poll_events` again, until it returns
//! none.
//!
//! After 1024 turns without a wait, the node's descriptor stops watching the transport until the next wait. A watched socket runs
//! `epoll`'s callback for each arriving frame, which takes 0.2 µs in the sender's system call or in the interrupt.
//!
//! A polling driver (`dpdk:`) has no descriptor. Then the node polls it every 50 µs: the node's descriptor becomes readable that
//! often, and a blocking call wakes that often. So such a wait uses a part of a processor, and adds at most 50 µs of latency.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use am_engine::{PollScope, Turn};
use am_proto::{EndpointId, Time};
use am_wire::Class;

use crate::dispatch::BUDGET;
use crate::node_state::NodeState;
use crate::waker::{BY_PROGRAM, NodeDescriptor, NodeWaker};
use crate::{Endpoint, Events, Node, NotOpen};

/// How many turns with frames and without an event a call makes before it returns to the program.
const MAX_TURNS: usize = 16;

impl Node {
    /// A waker of this node, for other threads.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn waker(&self) -> io::Result<NodeWaker> {
        Ok(self.state.borrow_mut().waiter()?.waker())
    }
}

impl<S> Endpoint<S> {
    /// The node's descriptor, for `epoll`, `poll`, `io_uring` and async executors: it becomes readable when this endpoint has to be
    /// polled. Wait on it only after [`poll_events`](Endpoint::poll_events) has returned no event, or
    /// [`prepare_wait`](Endpoint::prepare_wait) has returned `true`. Do not read from it. It covers all descriptors of the node: those
    /// of its transport, a timer for [the next deadline](Endpoint::next_deadline), and that of its [wakers](Node::waker).
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn descriptor(&self) -> io::Result<NodeDescriptor> {
        Ok(self.node.borrow_mut().waiter()?.node_descriptor())
    }

    /// How long the node can wait if nothing arrives: until a retransmission, a keepalive, a beacon or the deadline of a
    /// [call](Endpoint::try_call). The node's descriptor becomes readable then, so only a loop that does not wait on it needs this call.
    pub fn next_deadline(&self) -> Duration {
        let node = self.node.borrow();
        let now = node.clock.now();
        self.due(&node, now, true) - now
    }

    fn due(&self, node: &NodeState, now: Time, with_calls: bool) -> Time {
        let calls = if with_calls { self.shared.calls.borrow().next_check() } else { Time::NEVER };
        node.limit_sleep(now, node.engine.sleep_until().min(calls))
    }

    /// For a loop that [polls](Endpoint::poll): call this after a poll that handled nothing, before a wait on the node's
    /// [descriptor](Endpoint::descriptor). If it returns `false`, the node has work, or a [waker](Node::waker) was used: poll again,
    /// and check what other threads have queued. If it returns `true`, wait: the descriptor becomes readable when a frame arrives, at
    /// the next deadline, or when a waker is used.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn prepare_wait(&self) -> io::Result<bool> {
        let is_woken = self.node.borrow_mut().waiter()?.end_sleep() != 0;
        Ok(!is_woken && !self.node.borrow().has_work() && self.arm(true, false)?)
    }

    /// Arm the descriptor: it becomes readable by any later work. `false` if there is work already. `has_looked`: a turn has just
    /// received nothing. If the descriptor is still armed, that turn should have received something, so its cause is looked for.
    fn arm(&self, with_calls: bool, has_looked: bool) -> io::Result<bool> {
        let mut node = self.node.borrow_mut();
        let now = node.clock.now();
        let due = self.due(&node, now, with_calls);
        let NodeState { engine, transport, waiter: Some(waiter), .. } = &mut *node else { return Ok(false) };
        engine.before_wait(&mut ***transport);
        if due <= now || !waiter.try_wait() {
            return Ok(false);
        }
        let by_level = transport.caps().wakes_by_level;
        if !by_level && engine.inhale(PollScope::FramesOnly, || now, &mut ***transport) > 0 {
            return Ok(false);
        }
        waiter.set_timer(now, due);
        waiter.is_armed = (by_level && has_looked && !waiter.is_armed) || !waiter.is_readable();
        Ok(waiter.is_armed)
    }

    /// Wait for these events only, in [`wait_events`](Endpoint::wait_events), [`poll_events`](Endpoint::poll_events) and
    /// [`poll_ready`](Endpoint::poll_ready) (AM-II's `AM_SetEventMask`). Without this call they wait for all events except
    /// [`Events::CAN_SEND`]. [`Events::WOKEN`] ends a wait in any case. Connection events, and requests that would block, are recorded
    /// from this call on, or from the first wait on.
    pub fn set_event_mask(&mut self, mask: Events) {
        let mut node = self.node.borrow_mut();
        if mask.contains(Events::CONNECTION) {
            node.events.add(self.id);
        }
        if mask.contains(Events::CAN_SEND) {
            node.blocked.get_or_insert_default();
        }
        self.mask = mask;
        self.listens = true;
    }

    /// At the first wait for events, begin to record them.
    fn listen(&mut self) {
        if !self.listens {
            self.set_event_mask(self.mask);
        }
    }

    /// The events that this endpoint waits for.
    pub fn event_mask(&self) -> Events {
        self.mask
    }

    /// Receive and send, but run no handler. Returns the events of the mask that hold now. If there are none, the node's
    /// [descriptor](Endpoint::descriptor) becomes readable when this has to be called again. It never blocks.
    ///
    /// ```
    /// use std::os::fd::AsFd;
    /// use am_api::{Endpoint, Events};
    /// use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    ///
    /// /// What `wait_events` does, for a program that waits for other descriptors, too.
    /// fn wait(endpoint: &mut Endpoint<()>) -> std::io::Result<Events> {
    ///     let descriptor = endpoint.descriptor()?;
    ///     loop {
    ///         let events = endpoint.poll_events()?;
    ///         if !events.is_empty() {
    ///             return Ok(events);
    ///         }
    ///         poll(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)?;
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn poll_events(&mut self) -> io::Result<Events> {
        self.listen();
        let with_calls = self.mask.contains(Events::MESSAGES);
        self.is_woken |= self.node.borrow_mut().waiter()?.end_sleep() & BY_PROGRAM != 0;
        for _ in 0..MAX_TURNS {
            let turn = self.advance(PollScope::Everything);
            let events = self.take_events();
            if !events.is_empty() || !turn.is_idle() {
                self.node.borrow_mut().waiter()?.is_armed = false;
            }
            if !events.is_empty() || self.arm(with_calls, turn.received == 0)? {
                return Ok(events);
            }
        }
        // The program may have other things to do. This makes the descriptor readable at once.
        let mut node = self.node.borrow_mut();
        let now = node.clock.now();
        node.waiter()?.set_timer(now, now);
        Ok(Events::empty())
    }

    /// The events that hold now at this endpoint, whether the mask has them or not. This call receives nothing. It does not return the
    /// two events that are returned once, [`Events::CAN_SEND`] and [`Events::WOKEN`].
    pub fn pending_events(&self) -> Events {
        self.node.borrow_mut().pending_events(self.id)
    }

    /// Wait until an event of the mask holds, the time is over, or a [waker](Node::waker) is used (AM-II's `AM_WaitSema`). Returns
    /// the events, none if the time is over. Handlers do not run: [`poll`](Endpoint::poll) then runs them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use am_api::{Connection, Endpoint, Events, HandlerId, RequestError};
    ///
    /// /// Send all of these. Messages that arrive meanwhile wait, and so do their handlers.
    /// fn send_all(endpoint: &mut Endpoint<()>, to: Connection, numbers: &[u64]) -> Result<(), RequestError> {
    ///     endpoint.set_event_mask(Events::CAN_SEND);
    ///     for &number in numbers {
    ///         while let Err(error) = endpoint.try_request(to, HandlerId(0), &[number], b"") {
    ///             if !error.is_temporary() {
    ///                 return Err(error);
    ///             }
    ///             endpoint.wait_events(Duration::from_secs(1));
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn wait_events(&mut self, timeout: Duration) -> Events {
        self.listen();
        let with_calls = self.mask.contains(Events::MESSAGES);
        let mut until = None;
        loop {
            let turn = self.advance(PollScope::Everything);
            let events = self.take_events();
            let now = self.node.borrow().now();
            let until = *until.get_or_insert(now + timeout);
            if !events.is_empty() || now >= until {
                return events;
            }
            if !turn.is_idle() {
                self.idle.busy();
            } else {
                let calls = if with_calls { self.shared.calls.borrow().next_check() } else { Time::NEVER };
                self.rest(until.min(calls));
            }
        }
    }

    /// [`wait_events`](Endpoint::wait_events) for async executors. `readable` is the executor's poll of the node's
    /// [descriptor](Endpoint::descriptor): if the descriptor was readable, it forgets that and is ready; otherwise it arranges for
    /// the task to be woken. This call drops no event: a task may be dropped at any time.
    ///
    /// With tokio (see `examples/tokio_echo.rs`):
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::io;
    /// use std::os::fd::AsFd;
    /// use am_api::{Endpoint, Events};
    /// use tokio::io::Interest;
    /// use tokio::net::UnixStream;
    ///
    /// /// tokio watches any descriptor that has the type of one of its own. (`AsyncFd` would need an `unsafe` call.)
    /// fn watch(endpoint: &Endpoint<()>) -> io::Result<UnixStream> {
    ///     let stream = std::os::unix::net::UnixStream::from(endpoint.descriptor()?.as_fd().try_clone_to_owned()?);
    ///     stream.set_nonblocking(true)?;
    ///     UnixStream::from_std(stream)
    /// }
    ///
    /// async fn ready(endpoint: &mut Endpoint<()>, watched: &UnixStream) -> io::Result<Events> {
    ///     let forget = || _ = watched.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    ///     poll_fn(|cx| endpoint.poll_ready(cx, |cx| watched.poll_read_ready(cx).map_ok(|()| forget()))).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of `readable`, or the process has no descriptor left.
    pub fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        mut readable: impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<Events>> {
        for _ in 0..MAX_TURNS {
            let events = self.poll_events()?;
            if !events.is_empty() {
                return Poll::Ready(Ok(events));
            }
            match readable(cx) {
                Poll::Ready(result) => result?,
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// A turn without handlers. The answers that long messages need to go on are taken in, because a program that waits to send waits
    /// for them.
    fn advance(&self, scope: PollScope) -> Turn {
        let mut node = self.node.borrow_mut();
        let received = node.inhale(scope);
        if self.mask.contains(Events::CAN_SEND) && node.bulk.has_message_of(self.id) && node.engine.core().has_bulk() {
            node.take_in(self.id, BUDGET, false);
        }
        Turn { received, sent: node.exhale() }
    }

    /// The events of the mask that hold now, with those that are returned once.
    fn take_events(&mut self) -> Events {
        let mut node = self.node.borrow_mut();
        let mut events = node.pending_events(self.id);
        events.set(Events::WOKEN, std::mem::take(&mut self.is_woken));
        let calls_due = self.shared.calls.borrow().next_check() <= node.engine.core().now();
        events.set(Events::MESSAGES, calls_due || events.contains(Events::MESSAGES));
        if self.mask.contains(Events::CAN_SEND) && node.take_can_send(self.id) {
            events |= Events::CAN_SEND;
        }
        events & (self.mask | Events::WOKEN)
    }
}

impl NodeState {
    /// The events that wait for handlers of this endpoint.
    pub(crate) fn pending_events(&mut self, endpoint: EndpointId) -> Events {
        let core = self.engine.core_mut();
        let mut events = Events::empty();
        let has_messages = core.has_deliveries_to(endpoint) || core.has_group_frames_of(endpoint);
        events.set(Events::MESSAGES, has_messages || self.bulk.has_news_of(endpoint));
        events.set(Events::RETURNED, core.has_returned_to(endpoint) || self.bulk.has_returned_of(endpoint));
        events.set(Events::CONNECTION, self.events.has(endpoint));
        events.set(Events::MEMBERS, self.members.has(endpoint));
        events
    }

    /// Whether a blocked connection of this endpoint can send now, or has ended. Such connections are no longer blocked.
    pub(crate) fn take_can_send(&mut self, endpoint: EndpointId) -> bool {
        let (core, pool) = (self.engine.core(), self.engine.pool());
        let has_room = pool.available() > 0 && core.free_slots() > self.prepared && self.bulk.has_message_memory();
        let can_send = |flow| match NotOpen::of(core.state(flow)) {
            Ok(_) => has_room && core.credit(flow, Class::Request) > 0 && self.bulk.may_follow(core, flow),
            Err(why) => why != NotOpen::Connecting,
        };
        let Some(blocked) = &mut self.blocked else { return false };
        let before = blocked.len();
        blocked.retain(|&(of, flow)| of != endpoint || !can_send(flow));
        blocked.len() < before
    }
}
