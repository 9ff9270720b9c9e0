//! The life of a connection: dialed or accepted, known after its hello, closed.

use std::io::{self, ErrorKind};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use am_ring::own::high;
use am_transport::PeerAddressError;
use am_wire::{Address, AddressSet};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use super::Tcp;
use super::alive;
use super::connection::{Connection, Hello, PeerState, PeerTarget, ReadOutcome, configure, dial};
use super::deframer::Deframer;
use super::outbox::Room;
use crate::errors::is_out_of_descriptors;

/// The most connections, and the most accepted ones among them.
pub(super) const MAX_CONNECTIONS: usize = 512;
const MAX_ACCEPTED: usize = MAX_CONNECTIONS / 2;
/// A connection that sends no hello for this long is closed, unless this side dialed it and the other end's kernel answers.
const HELLO_TIMEOUT: Duration = Duration::from_secs(3);
/// If two nodes dial each other within this time, one of the connections is redundant.
const SIMULTANEOUS_DIAL: Duration = Duration::from_secs(1);
/// The interval of the ticks.
const TICK_INTERVAL: Duration = Duration::from_millis(10);
/// The interval of the ticks of a sleeping node, in nanoseconds.
const ASLEEP_TICK_NANOSECONDS: i64 = 50_000_000;
/// The pause before accept is tried again, after no descriptor was left.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The most connections that are accepted at once.
const MAX_ACCEPTS: usize = 16;

pub(super) const LISTENER: u64 = u64::MAX;
pub(super) const TIMER: u64 = u64::MAX - 1;

/// The events of a connection that epoll reports, each once.
fn events(with_room: bool) -> EventFlags {
    let always = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if with_room { always | EventFlags::OUT } else { always }
}

impl Tcp {
    /// Poll for events: new connections, writable and readable ones, the timer.
    pub(super) fn poll_events(&mut self) {
        self.events.clear();
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error means an invalid descriptor or a signal. After a signal the next poll sees the events.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&none));
        for at in 0..self.events.len() {
            match self.events[at].data.u64() {
                LISTENER => self.accept(),
                // Only drain the timer: the clock below decides whether a tick is due.
                TIMER => {
                    let _ = self.timer.get().map(|timer| rustix::io::read(timer, &mut [0; 8]));
                }
                slot => self.on_event(slot as u32),
            }
        }
        let now = Instant::now();
        if now.saturating_duration_since(self.last_tick) >= TICK_INTERVAL {
            self.last_tick = now;
            self.tick(now);
        }
    }

    fn on_event(&mut self, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        connection.is_readable = true;
        if matches!(connection.peer, PeerState::Connecting) {
            match connection.stream.take_error() {
                Ok(None) if connection.stream.peer_addr().is_ok() => {
                    connection.peer = PeerState::Silent(Default::default(), 0)
                }
                Ok(None) => return,
                Ok(Some(error)) | Err(error) => return self.on_dial_failed(slot, &error),
            }
        }
        self.write(slot);
    }

    /// A dial failed.
    #[cold]
    fn on_dial_failed(&mut self, slot: u32, error: &io::Error) {
        let target = self.peer_targets.iter_mut().find(|target| target.slot == Some(slot));
        target.into_iter().for_each(|target| target.error = Some(error.to_string()));
        self.mark_ended(slot, ReadOutcome::Closed, 0);
    }

    /// Why no peer is connected, if peer addresses were added. Names the kernel's error for one of them.
    pub(super) fn alone_error(&self) -> Option<String> {
        let target = self.peer_targets.iter().find(|target| target.error.is_some()).or(self.peer_targets.first())?;
        let why = target.error.as_deref().unwrap_or("it does not answer");
        let more = match self.peer_targets.len() - 1 {
            0 => String::new(),
            more => format!(", and none of {more} more answers"),
        };
        Some(format!("no peer is connected: {}: {why}{more}", target.at))
    }

    fn tick(&mut self, now: Instant) {
        for at in 0..self.peer_targets.len() {
            if self.peer_targets[at].is_due(now) && !self.is_connected(self.peer_targets[at].at) {
                self.dial(at, now);
            }
        }
        for at in 0..self.live.len() {
            let slot = self.live[at];
            self.connection(slot)
                .filter(|its| its.had_frame)
                .into_iter()
                .for_each(|its| (its.had_frame, its.last_frame) = (false, Some(now)));
            let late = |its: &mut Connection| {
                its.hello().is_none() && now.saturating_duration_since(its.since) > HELLO_TIMEOUT
            };
            if self.connection(slot).is_some_and(late) && !self.may_say_hello(slot) {
                self.counters.silent += 1;
                self.mark_ended(slot, ReadOutcome::Nothing, 0);
            }
        }
        if self.accept_retry.is_some_and(|again| now >= again) {
            self.accept();
        }
        self.set_timer();
    }

    /// Run the timer that wakes a sleeping node while a dial, an accept or a hello may become due.
    fn set_timer(&mut self) {
        let is_known = |slot: &u32| self.connections[*slot as usize].as_ref().is_some_and(|its| its.hello().is_some());
        let wanted = self.peer_targets.iter().any(|target| target.slot.is_none() && !self.is_connected(target.at))
            || self.accept_retry.is_some()
            || !self.live.iter().all(is_known);
        if wanted != self.is_timer_running {
            let nanoseconds = if wanted { ASLEEP_TICK_NANOSECONDS } else { 0 };
            let time = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
            let times = Itimerspec { it_interval: time, it_value: time };
            self.is_timer_running = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times).is_ok() && wanted;
        }
    }

    /// Whether the peer that listens at this address is connected, whichever side dialed.
    fn is_connected(&self, at: SocketAddr) -> bool {
        let mut connections = self.live.iter().filter_map(|slot| self.connections[*slot as usize].as_ref());
        connections.any(|connection| connection.listen_address() == Some(at))
    }

    /// Whether a connection that this side dialed may still get a hello: the peer's kernel answers, and its program may be
    /// busy.
    pub(super) fn may_say_hello(&self, slot: u32) -> bool {
        let Some(its) = &self.connections[slot as usize] else { return false };
        let mut targets = self.peer_targets.iter().filter(|target| target.slot == Some(slot));
        its.hello().is_none() && targets.any(|target| !self.is_connected(target.at)) && alive::answers(&its.stream)
    }

    pub(super) fn add_peer(&mut self, at: SocketAddr) -> Result<(), PeerAddressError> {
        // All nodes may share one list of addresses, which contains our own.
        if at == self.local || self.peer_targets.iter().any(|target| target.at == at) {
            return Ok(());
        }
        if self.peer_targets.len() == MAX_CONNECTIONS - MAX_ACCEPTED {
            return Err(PeerAddressError::TooMany { known: self.peer_targets.len() });
        }
        self.peer_targets.push(PeerTarget::new(at));
        self.tick(Instant::now());
        Ok(())
    }

    pub(super) fn remove_peer(&mut self, at: SocketAddr) {
        self.peer_targets.retain(|target| target.at != at);
        for index in 0..self.live.len() {
            let slot = self.live[index];
            if self.connection(slot).is_some_and(|its| its.remote == at || its.listen_address() == Some(at)) {
                self.mark_ended(slot, ReadOutcome::Closed, 0);
            }
        }
        self.close_ended();
        self.set_timer();
    }

    fn dial(&mut self, target: usize, now: Instant) {
        self.counters.dialed += 1;
        let at = self.peer_targets[target].at;
        let mut stream = dial(&self.options, self.local, at);
        if stream.as_ref().is_err_and(is_out_of_descriptors) && self.evict_one() {
            stream = dial(&self.options, self.local, at);
        }
        match stream {
            Ok(stream) => self.peer_targets[target].slot = self.add(stream, at, true),
            Err(error) => {
                self.counters.dial_failed += 1;
                self.peer_targets[target].error = Some(error.to_string());
            }
        }
        if self.peer_targets[target].slot.is_none() {
            self.peer_targets[target].on_failed(now);
        }
    }

    fn accept(&mut self) {
        let (mut is_crowded, mut again) = (false, None);
        for _ in 0..MAX_ACCEPTS {
            match self.listener.accept() {
                Ok((stream, remote)) => self.accepted(stream, remote),
                Err(error) if is_out_of_descriptors(&error) => {
                    // Evict at most one a poll, because a connection that was just accepted must be read before it can be
                    // evicted.
                    if is_crowded {
                        break;
                    }
                    is_crowded = self.evict_one();
                    if !is_crowded {
                        self.counters.accept_failed += 1;
                        again = Some(Instant::now() + ACCEPT_RETRY_INTERVAL);
                        break;
                    }
                }
                Err(error) => {
                    self.counters.accept_failed += (error.kind() != ErrorKind::WouldBlock) as u64;
                    break;
                }
            }
        }
        self.pause_accept(again);
    }

    /// Set when to try accept again. Until then the listener is not watched: connections that cannot be accepted would wake
    /// the node all the time.
    fn pause_accept(&mut self, again: Option<Instant>) {
        if again.is_some() != self.accept_retry.is_some() {
            let flags = if again.is_some() { EventFlags::empty() } else { EventFlags::IN };
            // Errors can only be invalid descriptors.
            let _ = epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), flags);
        }
        self.accept_retry = again;
        self.set_timer();
    }

    fn accepted(&mut self, stream: TcpStream, remote: SocketAddr) {
        let dialed = self.peer_targets.iter().filter(|target| target.slot.is_some()).count();
        if self.live.len() - dialed >= MAX_ACCEPTED && !self.evict_one() {
            // Dropping the stream closes it.
            self.counters.refused_full += 1;
        } else if configure(&stream, &self.options).is_ok() && self.add(stream, remote, false).is_some() {
            self.counters.accepted += 1;
        }
        self.set_timer();
    }

    /// Close one accepted connection to make room: the lowest by [`Connection::eviction_rank`], and among equals the oldest.
    /// So silent connections do not keep others out, however many there are.
    #[cold]
    fn evict_one(&mut self) -> bool {
        self.close_ended();
        let now = Instant::now();
        let silent = self.live.iter().copied().filter_map(|slot| {
            let its = self.connections[slot as usize].as_ref()?.eviction_rank(now)?;
            (!self.is_dialed(slot)).then_some((its, slot))
        });
        let Some((_, slot)) = silent.min() else { return false };
        self.counters.displaced += 1;
        self.close(slot, ReadOutcome::Nothing);
        true
    }

    /// Whether this side has dialed the connection.
    fn is_dialed(&self, slot: u32) -> bool {
        self.peer_targets.iter().any(|target| target.slot == Some(slot))
    }

    fn add(&mut self, stream: TcpStream, remote: SocketAddr, is_dialed: bool) -> Option<u32> {
        let stream = high(stream);
        let slot = self.connections.iter().position(Option::is_none)?;
        epoll::add(&self.epoll, &stream, EventData::new_u64(slot as u64), events(is_dialed)).ok()?;
        self.connections[slot] = Some(Connection::new(stream, remote, is_dialed, &self.hello));
        self.live.push(slot as u32);
        self.write(slot as u32);
        Some(slot as u32)
    }

    /// While bytes wait for room in the socket, have epoll report when there is some. Otherwise each acknowledgement of the peer would
    /// end a sleep.
    #[cold]
    pub(super) fn watch_room(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        connection.watches_room = !connection.outbox.is_empty();
        let flags = events(connection.watches_room);
        // Fails only for a descriptor that the program has closed.
        let _ = epoll::modify(&self.epoll, &connection.stream, EventData::new_u64(slot as u64), flags);
    }

    /// If the hello is complete, check it, and make the connection known.
    #[cold]
    pub(super) fn on_hello(&mut self, slot: u32) {
        let longest = self.caps.max_frame;
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        let Some(hello) = connection.complete_hello() else { return };
        if hello.address == self.caps.address {
            self.on_self_connection(slot);
            return;
        }
        if self.is_redundant(slot, &hello) {
            self.counters.redundant += 1;
            self.mark_ended(slot, ReadOutcome::Nothing, 0);
            return;
        }
        let is_dialed = self.is_dialed(slot);
        let Some(connection) = self.connection(slot) else { return };
        connection.peer = PeerState::Known(hello, Deframer::new(longest));
        if !is_dialed {
            connection.outbox.queue_hello();
        }
        self.routes.entry(hello.address).or_insert(slot);
        self.counters.connected += 1;
        self.peer_targets.iter_mut().filter(|target| target.slot == Some(slot)).for_each(PeerTarget::on_answered);
        self.set_timer();
        self.introduce(slot);
    }

    /// Send the node's introduction to an added peer, once for each connection: it does not get lost.
    #[cold]
    pub(super) fn introduce(&mut self, slot: u32) {
        let Tcp { connections, peer_targets, introduction, caps, .. } = self;
        let Some(its) = &mut connections[slot as usize] else { return };
        let listens_at = its.listen_address();
        let is_it = |target: &PeerTarget| target.slot == Some(slot) || listens_at == Some(target.at);
        let is_wanted = !introduction.is_empty() && !its.is_introduced && its.hello().is_some();
        if is_wanted
            && peer_targets.iter().any(is_it)
            && its.outbox.room(Duration::ZERO) == Room::Some
            && let Some(frame) = caps.pool.copy(introduction)
        {
            its.outbox.push(frame);
            its.is_introduced = true;
        }
    }

    /// This node seems to have connected to itself, through another of its addresses. The dialing end removes that address, so
    /// that it is not dialed again. The accepting end does not know the dialed address, and any host can claim this node's
    /// link address, so it only answers with its hello, which the dialing end recognizes.
    #[cold]
    fn on_self_connection(&mut self, slot: u32) {
        let known = self.peer_targets.len();
        self.peer_targets.retain(|target| target.slot != Some(slot));
        if self.peer_targets.len() == known
            && let Some(accepted) = self.connection(slot)
        {
            accepted.outbox.queue_hello();
            self.write(slot);
        }
        self.mark_ended(slot, ReadOutcome::Closed, 0);
    }

    /// Whether a connection is redundant. Two nodes that dial each other at once would have two connections, and each would
    /// send on another one: then no frame carries TCP's acknowledgements. So only the connection that the higher address
    /// dialed stays. The other one is not answered, and has carried no frame. The rule is only for dials at the same time: a
    /// dial that hangs must not keep the peer out.
    fn is_redundant(&self, slot: u32, hello: &Hello) -> bool {
        let connection = |slot: u32| self.connections[slot as usize].as_ref();
        let Some(at) = connection(slot).map(|accepted| accepted.listen_address_of(hello)) else { return false };
        let dialed = self.peer_targets.iter().find(|target| target.at == at).and_then(|target| target.slot);
        let dialed = dialed.filter(|dialed| *dialed != slot).and_then(connection);
        dialed.is_some_and(|dialed| dialed.since.elapsed() < SIMULTANEOUS_DIAL && self.caps.address > hello.address)
    }

    #[cold]
    pub(super) fn close_ended(&mut self) {
        let mut over = mem::take(&mut self.ended);
        over.drain(..).for_each(|(slot, why)| self.close(slot, why));
        self.ended = over;
        self.set_timer();
    }

    /// The peer receives nothing more. Bytes that it sent before are read to the end; then the connection is closed.
    #[cold]
    pub(super) fn half_close(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        connection.is_half_closed = true;
        self.counters.disconnected += connection.outbox.clear() as u64;
        self.reroute(slot);
    }

    fn close(&mut self, slot: u32, why: ReadOutcome) {
        let Some(mut connection) = self.connections[slot as usize].take() else { return };
        self.live.retain(|its| *its != slot);
        self.counters.disconnected += connection.outbox.clear() as u64;
        match why {
            ReadOutcome::Garbage => self.counters.garbage += 1,
            ReadOutcome::Closed => self.counters.ended += 1,
            ReadOutcome::Bytes | ReadOutcome::Nothing => (),
        }
        let target = self.peer_targets.iter_mut().find(|target| target.slot == Some(slot));
        if let Some(target) = target {
            self.counters.dial_failed += connection.hello().is_none() as u64;
            target.on_failed(Instant::now());
        }
        self.reroute(slot);
    }

    /// The connection carries no frames any more. If there is a second one to its peer, that one takes over the address of the
    /// hello. It learns the peer's other addresses again.
    fn reroute(&mut self, slot: u32) {
        let routed: Vec<Address> = self.routes.iter().filter(|(_, its)| **its == slot).map(|(to, _)| *to).collect();
        for address in routed {
            self.routes.remove(&address);
            let is_theirs = |slot: &&u32| {
                let other = self.connections[**slot as usize].as_ref().filter(|other| !other.is_half_closed);
                other.is_some_and(|other| other.has_address(address))
            };
            if let Some(other) = self.live.iter().find(is_theirs) {
                self.routes.insert(address, *other);
            }
        }
    }

    /// Control frames have arrived on this connection. It carries frames to their source addresses from now on, unless another
    /// connection does. A peer may have several addresses.
    #[cold]
    pub(super) fn learn_routes(&mut self, slot: u32) {
        for source in self.inbox.claimed.drain(..) {
            let Some(connection) = &mut self.connections[slot as usize] else { continue };
            if connection.has_address(source) || connection.is_half_closed {
                continue;
            }
            match self.routes.get(&source) {
                Some(other) if *other == slot => (),
                Some(_) => self.counters.not_learned_elsewhere += 1,
                None if connection.further_addresses == AddressSet::MAX => self.counters.not_learned_full += 1,
                None => {
                    connection.further_addresses += 1;
                    self.routes.insert(source, slot);
                    self.counters.learned += 1;
                }
            }
        }
    }

    /// The number of peers that frames can be sent to.
    pub(super) fn peer_count(&self) -> usize {
        let is_own = |address: &Address, slot: u32| {
            self.connections[slot as usize].as_ref().is_some_and(|connection| connection.has_address(*address))
        };
        self.routes.iter().filter(|(address, slot)| is_own(address, **slot)).count()
    }
}
