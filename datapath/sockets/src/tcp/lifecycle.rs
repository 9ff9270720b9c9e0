//! The life of a connection: dialed or accepted, known after its hello, closed.

use std::io::{self, ErrorKind};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use am_transport::IntroduceError;
use nix::errno::Errno;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use super::connection::{Connection, Look, Peer};
use super::cutter::Cutter;
use super::hello::Hello;
use super::peers::Place;
use super::{Tcp, stream};

/// The most connections, and the most accepted ones among them.
pub(super) const MOST: usize = 512;
const STRANGERS: usize = MOST / 2;
/// A connection that sends no hello for this long is closed.
const GREETING: Duration = Duration::from_secs(3);
/// If two nodes dial each other within this time, one of the connections is redundant.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The interval of the ticks.
const TICK: Duration = Duration::from_millis(10);
/// The interval of the ticks of a sleeping node, in nanoseconds.
const TICK_ASLEEP: i64 = 50_000_000;
/// The pause before accept is tried again, after no descriptor was left.
const PAUSE: Duration = Duration::from_millis(100);
/// The most connections that are accepted at once.
const ACCEPTS: usize = 16;

pub(super) const LISTENER: u64 = u64::MAX;
pub(super) const TIMER: u64 = u64::MAX - 1;

impl Tcp {
    /// Poll for events: new connections, writable and readable ones, the timer.
    pub(super) fn look_around(&mut self) {
        self.events.clear();
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Errors can only be invalid descriptors and interruptions. After an interruption the next poll sees the same
        // events.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&none));
        for at in 0..self.events.len() {
            match self.events[at].data.u64() {
                LISTENER => self.accept(),
                // The clock decides what is due, below.
                TIMER => {
                    let _ = rustix::io::read(&self.timer, &mut [0; 8]);
                }
                slot => self.changed(slot as u32),
            }
        }
        let now = Instant::now();
        if now.saturating_duration_since(self.ticked) >= TICK {
            self.ticked = now;
            self.tick(now);
        }
    }

    fn changed(&mut self, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        connection.ready = true;
        if matches!(connection.peer, Peer::Connecting) {
            match connection.stream.take_error() {
                Ok(None) if connection.stream.peer_addr().is_ok() => {
                    connection.peer = Peer::Silent(Default::default(), 0)
                }
                Ok(None) => return,
                _ => {
                    self.end(slot, Look::Over, 0);
                    return;
                }
            }
        }
        self.write(slot);
    }

    fn tick(&mut self, now: Instant) {
        for at in 0..self.places.len() {
            if self.places[at].is_due(now) && !self.is_connected(self.places[at].at) {
                self.dial(at, now);
            }
        }
        for at in 0..self.live.len() {
            let slot = self.live[at];
            self.connection(slot)
                .filter(|its| its.spoke)
                .into_iter()
                .for_each(|its| (its.spoke, its.heard) = (false, Some(now)));
            let late =
                |its: &mut Connection| its.hello().is_none() && now.saturating_duration_since(its.since) > GREETING;
            if self.connection(slot).is_some_and(late) {
                self.count.silent += 1;
                self.end(slot, Look::Nothing, 0);
            }
        }
        if self.crowded.is_some_and(|again| now >= again) {
            self.accept();
        }
        self.set_timer();
    }

    /// Run the timer that wakes a sleeping node, while anything may become due.
    fn set_timer(&mut self) {
        let is_known = |slot: &u32| self.connections[*slot as usize].as_ref().is_some_and(|its| its.hello().is_some());
        let wanted = self.places.iter().any(|place| place.slot.is_none() && !self.is_connected(place.at))
            || self.crowded.is_some()
            || !self.live.iter().all(is_known);
        if wanted != self.is_timing {
            let nanoseconds = if wanted { TICK_ASLEEP } else { 0 };
            let time = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
            let times = Itimerspec { it_interval: time, it_value: time };
            self.is_timing = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times).is_ok() && wanted;
        }
    }

    /// Whether the peer that listens at this address is connected, by either side's dial.
    fn is_connected(&self, place: SocketAddr) -> bool {
        let mut connections = self.live.iter().filter_map(|slot| self.connections[*slot as usize].as_ref());
        connections.any(|connection| connection.place() == Some(place))
    }

    pub(super) fn introduce_at(&mut self, at: SocketAddr) -> Result<(), IntroduceError> {
        // All nodes may share one list of addresses, which contains our own.
        if at == self.local || self.places.iter().any(|place| place.at == at) {
            return Ok(());
        }
        if self.places.len() == MOST - STRANGERS {
            return Err(IntroduceError::TooMany { known: self.places.len() });
        }
        self.places.push(Place::new(at));
        self.tick(Instant::now());
        Ok(())
    }

    pub(super) fn forget_at(&mut self, at: SocketAddr) {
        self.places.retain(|place| place.at != at);
        for index in 0..self.live.len() {
            let slot = self.live[index];
            if self.connection(slot).is_some_and(|its| its.remote == at || its.place() == Some(at)) {
                self.end(slot, Look::Over, 0);
            }
        }
        self.close_what_is_over();
        self.set_timer();
    }

    fn dial(&mut self, place: usize, now: Instant) {
        self.count.dialed += 1;
        let at = self.places[place].at;
        let mut stream = stream::dial(&self.options, self.local, at);
        if stream.as_ref().is_err_and(is_out_of_descriptors) && self.make_room() {
            stream = stream::dial(&self.options, self.local, at);
        }
        match stream {
            Ok(stream) => self.places[place].slot = self.add(stream, at, true),
            Err(_) => self.count.dial_failed += 1,
        }
        if self.places[place].slot.is_none() {
            self.places[place].failed(now);
        }
    }

    fn accept(&mut self) {
        let (mut is_crowded, mut again) = (false, None);
        for _ in 0..ACCEPTS {
            match self.listener.accept() {
                Ok((stream, remote)) => self.accepted(stream, remote),
                Err(error) if is_out_of_descriptors(&error) => {
                    // At most one a poll: a connection that was accepted a moment ago must be read before it can be
                    // closed for another.
                    if is_crowded {
                        break;
                    }
                    is_crowded = self.make_room();
                    if !is_crowded {
                        self.count.accept_failed += 1;
                        again = Some(Instant::now() + PAUSE);
                        break;
                    }
                }
                Err(error) => {
                    self.count.accept_failed += (error.kind() != ErrorKind::WouldBlock) as u64;
                    break;
                }
            }
        }
        self.pause(again);
    }

    /// Set when to try accept again. Until then, waiting connections must not wake the node: without a descriptor they
    /// would wake it all the time.
    fn pause(&mut self, again: Option<Instant>) {
        if again.is_some() != self.crowded.is_some() {
            let flags = if again.is_some() { EventFlags::empty() } else { EventFlags::IN };
            // Errors can only be invalid descriptors.
            let _ = epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), flags);
        }
        self.crowded = again;
        self.set_timer();
    }

    fn accepted(&mut self, stream: TcpStream, remote: SocketAddr) {
        let dialed = self.places.iter().filter(|place| place.slot.is_some()).count();
        if self.live.len() - dialed >= STRANGERS && !self.make_room() {
            // Dropping the stream closes it.
            self.count.refused_full += 1;
        } else if stream::prepare(&stream, &self.options).is_ok() && self.add(stream, remote, false).is_some() {
            self.count.accepted += 1;
        }
        self.set_timer();
    }

    /// Close one accepted connection to make room: the lowest by [`Connection::spare`], and among equals the oldest. So
    /// silent connections, however many, do not keep others out.
    #[cold]
    fn make_room(&mut self) -> bool {
        self.close_what_is_over();
        let now = Instant::now();
        let silent = self.live.iter().copied().filter_map(|slot| {
            let its = self.connections[slot as usize].as_ref()?.spare(now)?;
            (!self.is_dialed(slot)).then_some((its, slot))
        });
        let Some((_, slot)) = silent.min() else { return false };
        self.count.displaced += 1;
        self.close(slot, Look::Nothing);
        true
    }

    /// Whether this side has dialed the connection.
    fn is_dialed(&self, slot: u32) -> bool {
        self.places.iter().any(|place| place.slot == Some(slot))
    }

    fn add(&mut self, stream: TcpStream, remote: SocketAddr, is_dialed: bool) -> Option<u32> {
        let slot = self.connections.iter().position(Option::is_none)?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &stream, EventData::new_u64(slot as u64), flags).ok()?;
        self.connections[slot] = Some(Connection::new(stream, remote, is_dialed, &self.hello));
        self.live.push(slot as u32);
        self.write(slot as u32);
        Some(slot as u32)
    }

    /// If the hello is complete, check it and use the connection.
    #[cold]
    pub(super) fn greet(&mut self, slot: u32) {
        let longest = self.caps.max_frame;
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        let Some(hello) = connection.greeting() else { return };
        if hello.address == self.caps.address {
            self.met_ourselves(slot);
            return;
        }
        if self.is_one_too_many(slot, &hello) {
            self.count.redundant += 1;
            self.end(slot, Look::Nothing, 0);
            return;
        }
        let is_dialed = self.is_dialed(slot);
        let Some(connection) = self.connection(slot) else { return };
        connection.peer = Peer::Known(hello, Cutter::new(longest));
        if !is_dialed {
            connection.out.greet();
        }
        self.routes.add(hello.address, slot);
        self.count.connected += 1;
        self.places.iter_mut().filter(|place| place.slot == Some(slot)).for_each(Place::answered);
        self.set_timer();
    }

    /// This node has connected to itself, by another of its addresses. Remove that address, so that it is not dialed
    /// again. Only the dialing side knows it: an accepted connection may come from another address, and any host can
    /// claim our link address. So the accepting side answers, and the dialing side learns of it.
    #[cold]
    fn met_ourselves(&mut self, slot: u32) {
        let known = self.places.len();
        self.places.retain(|place| place.slot != Some(slot));
        if self.places.len() == known
            && let Some(accepted) = self.connection(slot)
        {
            accepted.out.greet();
            self.write(slot);
        }
        self.end(slot, Look::Over, 0);
    }

    /// Whether a connection is redundant. Two nodes that dial each other at once would have two connections, and each
    /// would send on one of them: then no frame carries TCP's acknowledgements. So the connection that the higher
    /// address dialed stays. The other one is not answered, and nothing was sent on it. That holds only for dials at
    /// the same time: a dial that hangs must not keep the peer out.
    fn is_one_too_many(&self, slot: u32, hello: &Hello) -> bool {
        let connection = |slot: u32| self.connections[slot as usize].as_ref();
        let Some(at) = connection(slot).map(|accepted| accepted.place_of(hello)) else { return false };
        let dialed = self.places.iter().find(|place| place.at == at).and_then(|place| place.slot);
        let dialed = dialed.filter(|dialed| *dialed != slot).and_then(connection);
        dialed.is_some_and(|dialed| dialed.since.elapsed() < AT_ONCE && self.caps.address > hello.address)
    }

    #[cold]
    pub(super) fn close_what_is_over(&mut self) {
        let mut over = mem::take(&mut self.over);
        over.drain(..).for_each(|(slot, why)| self.close(slot, why));
        self.over = over;
        self.set_timer();
    }

    /// The peer receives nothing more. Its earlier bytes are still read, to the end; then the connection is closed.
    #[cold]
    pub(super) fn fall_deaf(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        connection.is_deaf = true;
        self.count.disconnected += connection.out.clear() as u64;
        self.reroute(slot);
    }

    fn close(&mut self, slot: u32, why: Look) {
        let Some(mut connection) = self.connections[slot as usize].take() else { return };
        self.live.retain(|its| *its != slot);
        self.count.disconnected += connection.out.clear() as u64;
        match why {
            Look::Garbage => self.count.garbage += 1,
            Look::Over => self.count.ended += 1,
            Look::Bytes | Look::Nothing => (),
        }
        let place = self.places.iter_mut().find(|place| place.slot == Some(slot));
        if let Some(place) = place {
            self.count.dial_failed += connection.hello().is_none() as u64;
            place.failed(Instant::now());
        }
        self.reroute(slot);
    }

    /// If there is a second connection to the same peer, use it from now on.
    fn reroute(&mut self, slot: u32) {
        let Some(address) = self.routes.remove(slot) else { return };
        let is_theirs = |slot: &&u32| {
            let other = self.connections[**slot as usize].as_ref().filter(|other| !other.is_deaf);
            other.and_then(Connection::hello).is_some_and(|hello| hello.address == address)
        };
        if let Some(other) = self.live.iter().find(is_theirs) {
            self.routes.add(address, *other);
        }
    }
}

/// Whether the process or the system has no descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::EMFILE, Errno::ENFILE].into_iter().any(|full| error.raw_os_error() == Some(full as i32))
}
