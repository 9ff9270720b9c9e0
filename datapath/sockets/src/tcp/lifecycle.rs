//! Connections come and go: dialed, accepted, greeted, closed.

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

/// Connections at a time, and how many of them strangers may have.
pub(super) const MOST: usize = 512;
const STRANGERS: usize = MOST / 2;
/// Who has not said who he is for so long is closed.
const GREETING: Duration = Duration::from_secs(3);
/// Two dials of each other within this time are one.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Between two looks at what is due.
const TICK: Duration = Duration::from_millis(10);
/// The same for who sleeps.
const TICK_ASLEEP: i64 = 50_000_000;
/// Without a descriptor for a new connection, accept is tried again after so long.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections that are accepted at once.
const ACCEPTS: usize = 16;

pub(super) const LISTENER: u64 = u64::MAX;
pub(super) const TIMER: u64 = u64::MAX - 1;

impl Tcp {
    /// What has changed besides arrivals on connections that are asked anyway.
    pub(super) fn look_around(&mut self) {
        self.events.clear();
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Its only errors are descriptors that are none, and interruption: the next look sees the same.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&none));
        for at in 0..self.events.len() {
            match self.events[at].data.u64() {
                LISTENER => self.accept(),
                // It is the clock that is looked at.
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

    /// Who sleeps is woken for what is due, as long as anything can be.
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

    /// Whether somebody who listens there is connected, whoever began.
    fn is_connected(&self, place: SocketAddr) -> bool {
        let mut connections = self.live.iter().filter_map(|slot| self.connections[*slot as usize].as_ref());
        connections.any(|connection| connection.place() == Some(place))
    }

    pub(super) fn introduce_at(&mut self, at: SocketAddr) -> Result<(), IntroduceError> {
        // A list of all nodes may be everybody's.
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
                    // One for each look: a connection that came a moment ago has to be heard before it makes room.
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

    /// Until then, connections that wait to be accepted do not wake the node: without a descriptor they would do so for ever.
    fn pause(&mut self, again: Option<Instant>) {
        if again.is_some() != self.crowded.is_some() {
            let flags = if again.is_some() { EventFlags::empty() } else { EventFlags::IN };
            // Its only errors are descriptors that are none, or not in it.
            let _ = epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), flags);
        }
        self.crowded = again;
        self.set_timer();
    }

    fn accepted(&mut self, stream: TcpStream, remote: SocketAddr) {
        let dialed = self.places.iter().filter(|place| place.slot.is_some()).count();
        if self.live.len() - dialed >= STRANGERS && !self.make_room() {
            // Dropped, and so closed.
            self.count.refused_full += 1;
        } else if stream::prepare(&stream, &self.options).is_ok() && self.add(stream, remote, false).is_some() {
            self.count.accepted += 1;
        }
        self.set_timer();
    }

    /// Of the strangers who say nothing, the one who had most time for it makes room: who is there to talk does so at once, and those who
    /// are silent, however many, keep nobody out.
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

    /// Whether it is we who have made this connection.
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

    /// The other side may have said who it is.
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

    /// By another of our addresses: not to be tried again. Which place that is, only the dial knows: what is accepted may come from
    /// another address, and anybody can say that he is we. So it is answered, for the dial to hear.
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

    /// Two that dial each other at once would have two connections, and send on one each: no frame would take an
    /// acknowledgement of TCP's along. So the one that the higher address has dialed stays, and what the lower one has dialed meanwhile is
    /// not answered: nothing was sent on it. Only at once: a dial that hangs must not keep the other out.
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

    /// The other side hears nothing more. What it has said before is still
    /// read, to its end: that is when the connection is closed.
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

    /// Where there is a second connection to who was reached by this one, it is used from now on.
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

/// This process, or the system, has no descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::EMFILE, Errno::ENFILE].into_iter().any(|full| error.raw_os_error() == Some(full as i32))
}
