//! **Frames in TCP streams**, each after its length.
//!
//! ```text
//!   send ──▶ a queue for each connection ──▶ flush: one sendmsg for up to 64 frames; the rest waits
//!              ▲
//!            routes    address ─▶ connection, once its hello has arrived
//!              ▲
//!   each ◀── steering ◀── deframer ◀── one read
//!            copied to a frame of the pool
//!
//!   a connection:   Connecting ──▶ Silent ──▶ Known ──▶ closed; an added peer address is dialed
//!                    (dialed)    (accepted)   (hello)   again, after a pause that grows
//! ```
//!
//! The transport is reliable and ordered while a connection lives. When the connection ends, frames in flight are lost, and
//! so are the queued ones, which are counted (`tcp_lost_disconnected`). If a peer takes nothing from its full queue for
//! 20 ms, frames for it are dropped (`tcp_lost_stalled`) until it takes something. So a stalled peer does not block frames
//! for others (head-of-line blocking).
//!
//! Each side first sends a hello: its address, the port where it listens, and its longest frame. The dialing side sends
//! first. If two nodes dial each other at once, the dial of the lower address is not answered. If there are two connections
//! nevertheless, each side receives on both, and sends only on the connection that it knew first, until that ends. So no frame
//! is duplicated or overtaken.
//!
//! # What unknown hosts can do
//!
//! Peers are not authenticated. A host that can connect can claim any address in its hello, and 256 more with control frames
//! from these addresses. It gets the frames for an address if it claims the address first, or when the owner's connection
//! ends.
//!
//! A connection that sends no valid hello within 3 s is closed and counted, unless this side dialed it and the other end's
//! kernel answers. A connection that announces an invalid length is always closed and counted. When connections or
//! descriptors run out, the transport closes, in this order: a connection without a hello, a connection without a whole
//! frame in its first half second, or a connection that has sent no whole frame for 15 s. Half of the connections are reserved for added peer
//! addresses.
//!
//! As with Ethernet, use it on networks whose hosts trust each other.

mod alive;
mod connection;
pub mod deframer;
mod lifecycle;
mod open;
mod outbox;

use std::collections::BTreeMap;
use std::mem::take;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_ring::{Frame, Own};
use am_transport::{Caps, Command, Notice, PeerAddressError, PeerInfo, Transport};
use am_wire::{Address, Buffer};
use connection::{Connection, Hello, PeerState, PeerTarget, ReadOutcome};
use deframer::Inbox;
pub use open::open;
use outbox::Room;
use rustix::event::epoll::Event;
use socket2::SockRef;

use crate::local_address::LocalAddress;
use crate::{SocketOptions, peer_address};

/// Up to this many connections are read without asking epoll. With more, epoll reports which are readable.
const MAX_READ_WITHOUT_EPOLL: usize = 4;
/// With few connections, epoll is polled once in this many receives.
const EPOLL_INTERVAL: u32 = 32;

/// How long a slow peer may take to receive the rest when the transport is dropped: a node's default patience.
const LINGER: Duration = Duration::from_millis(1500);
/// The pause between two attempts to send the rest.
const LINGER_PAUSE: Duration = Duration::from_micros(200);

/// The link error when no connection can be accepted.
const NO_DESCRIPTOR: &str =
    "no descriptor is left for new connections: `ulimit -n` says how many a process may have, and raises it";

/// A listening socket and its connections as a transport.
pub struct Tcp {
    caps: Caps,
    options: SocketOptions,
    local: SocketAddr,
    hello: Hello,
    listener: Own<TcpListener>,
    epoll: Own,
    timer: Own,
    is_timer_running: bool,
    /// When to try accept again. Set while no descriptor is left for a new connection: until then the listener does not wake
    /// the node.
    accept_retry: Option<Instant>,
    events: Vec<Event>,
    inbox: Inbox,
    connections: Vec<Option<Connection>>,
    /// The slots in use.
    live: Vec<u32>,
    /// The slots whose connections have ended and must be closed.
    ended: Vec<(u32, ReadOutcome)>,
    /// For each link address the connection that carries its frames. It is one connection, even if there are several to the
    /// peer, so that frames stay in order. A connection carries frames for the address of its peer's hello, and for addresses
    /// from which the peer has sent control frames.
    routes: BTreeMap<Address, u32>,
    peer_targets: Vec<PeerTarget>,
    /// The frame for each added peer once it is connected. Empty until the node has one.
    introduction: Vec<u8>,
    receives: u32,
    /// Silent peers whose host answers, until they are reported to the node.
    alive: Vec<Address>,
    /// The host of a dialed peer answers, but no hello has arrived. Reported to the node at the next poll.
    has_stranger: bool,
    /// How long a sender waits for a full queue.
    stall_timeout: Duration,
    last_tick: Instant,
    own_address: LocalAddress,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    received: u64,
    send_calls: u64,
    receive_calls: u64,
    full: u64,
    connected: u64,
    learned: u64,
    not_learned_full: u64,
    not_learned_elsewhere: u64,
    dialed: u64,
    dial_failed: u64,
    accepted: u64,
    accept_failed: u64,
    refused_full: u64,
    ended: u64,
    garbage: u64,
    silent: u64,
    displaced: u64,
    redundant: u64,
    nobody: u64,
    too_long: u64,
    too_long_for_peer: u64,
    disconnected: u64,
    stalled: u64,
}

impl Tcp {
    #[inline]
    fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.connections[slot as usize].as_mut()
    }

    /// Receive at most `budget` frames from one connection. If the buffered bytes are not enough, it makes one system call;
    /// without `skips_epoll` only if epoll has reported the connection.
    #[inline]
    fn receive_from(&mut self, slot: u32, skips_epoll: bool, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let Tcp { connections, inbox, .. } = self;
        let Some(connection) = &mut connections[slot as usize] else { return 0 };
        let (mut taken, mut is_all) = (0, true);
        if let PeerState::Known(_, deframer) = &mut connection.peer {
            match inbox.deliver_frames(deframer, budget, each) {
                Ok(result) => (taken, is_all) = result,
                Err(_) => return self.mark_ended(slot, ReadOutcome::Garbage, 0),
            }
        }
        if taken == budget || !is_all || !(skips_epoll || connection.is_readable) {
            return taken;
        }
        self.counters.receive_calls += 1;
        match connection.read() {
            ReadOutcome::Bytes => (),
            ReadOutcome::Nothing => return taken,
            ended => return self.mark_ended(slot, ended, taken),
        }
        if let PeerState::Known(_, deframer) = &mut connection.peer {
            return match inbox.deliver_frames(deframer, budget - taken, each) {
                Ok((more, _)) => taken + more,
                Err(_) => self.mark_ended(slot, ReadOutcome::Garbage, taken),
            };
        }
        self.on_hello(slot);
        taken
    }

    /// Mark a connection to be closed at the end of the call. Returns `taken`, so that callers can return this call.
    #[cold]
    fn mark_ended(&mut self, slot: u32, why: ReadOutcome, taken: usize) -> usize {
        if self.ended.iter().all(|(its, _)| *its != slot) {
            self.ended.push((slot, why));
        }
        taken
    }

    /// Put a frame into the queue of one connection.
    #[inline]
    fn send_one(&mut self, slot: u32, frame: &Frame) -> bool {
        let Some(connection) = &mut self.connections[slot as usize] else { return true };
        if connection.hello().is_some_and(|hello| frame.bytes().len() > hello.max_frame as usize) {
            self.counters.too_long_for_peer += 1;
            return true;
        }
        match connection.outbox.room(self.stall_timeout) {
            Room::Some => connection.outbox.push(frame.share()),
            Room::Stalled => self.counters.stalled += 1,
            Room::Full => {
                self.counters.full += 1;
                return false;
            }
        }
        true
    }

    /// Send to all peers or, if one has no room, to none, so that sending the frame again makes no duplicate.
    #[cold]
    fn flood(&mut self, frame: &Frame) -> bool {
        let Tcp { routes, connections, counters: count, stall_timeout, .. } = self;
        let mut room =
            |(_, slot): (_, &u32)| connections[*slot as usize].as_mut().map(|its| its.outbox.room(*stall_timeout));
        if routes.iter().any(|route| room(route) == Some(Room::Full)) {
            count.full += 1;
            return false;
        }
        let mut receivers = 0;
        for (address, slot) in &*routes {
            // A peer with several addresses has a route for each. Send only on the route of its hello's address.
            if let Some(connection) = &mut connections[*slot as usize]
                && connection.has_address(*address)
            {
                receivers += 1;
                match connection.outbox.room(*stall_timeout) {
                    Room::Some => connection.outbox.push(frame.share()),
                    _ => count.stalled += 1,
                }
            }
        }
        count.nobody += (receivers == 0) as u64;
        true
    }

    #[inline]
    fn write(&mut self, slot: u32) {
        let Tcp { connections, counters: count, .. } = self;
        let Some(connection) = &mut connections[slot as usize] else { return };
        if connection.outbox.is_empty() || matches!(connection.peer, PeerState::Connecting) {
            return;
        }
        match connection.outbox.write(&connection.stream, &mut count.send_calls) {
            Some(frames) => count.sent += frames as u64,
            None => return self.half_close(slot),
        }
        if connection.watches_room == connection.outbox.is_empty() {
            self.watch_room(slot);
        }
    }
}

impl Transport for Tcp {
    #[inline]
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        if budget == 0 {
            return 0;
        }
        let skips_epoll = self.live.len() <= MAX_READ_WITHOUT_EPOLL;
        self.receives = self.receives.wrapping_add(1);
        if !skips_epoll || self.receives.is_multiple_of(EPOLL_INTERVAL) {
            self.poll_events();
        }
        let (live, mut taken) = (self.live.len(), 0);
        for step in 0..live {
            // Each call starts at another connection, so that a busy one does not starve the rest.
            let slot = self.live[(self.receives as usize + step) % live];
            taken += self.receive_from(slot, skips_epoll, budget - taken, each);
            if !self.inbox.claimed.is_empty() {
                self.learn_routes(slot);
            }
            if taken == budget {
                break;
            }
        }
        if !self.ended.is_empty() {
            self.close_ended();
        }
        self.counters.received += taken as u64;
        taken
    }

    #[inline]
    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        if frame.bytes().len() > self.caps.max_frame {
            self.counters.too_long += 1;
            return true;
        }
        match self.routes.get(&to) {
            Some(slot) => self.send_one(*slot, frame),
            // A broadcast, or an unknown address: flood it, as a switch does.
            None => self.flood(frame),
        }
    }

    #[inline]
    fn flush(&mut self) {
        for at in 0..self.live.len() {
            self.write(self.live[at]);
        }
        if !self.ended.is_empty() {
            self.close_ended();
        }
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            Command::AddPeer(place) => self.add_peer(peer_address::parse_peer("tcp", place, self.local)?),
            Command::Introduce(frame) => {
                frame.clone_into(&mut self.introduction);
                (0..self.live.len()).for_each(|at| self.introduce(self.live[at]));
                Ok(())
            }
            Command::RemovePeer(place) => {
                self.remove_peer(peer_address::parse_peer("tcp", place, self.local)?);
                Ok(())
            }
            Command::Leave(longest) => {
                self.stall_timeout = longest;
                self.connections.iter_mut().flatten().for_each(|connection| connection.outbox.forget_full());
                Ok(())
            }
            Command::AskAlive(Address::BROADCAST) => {
                self.has_stranger = self.live.iter().any(|slot| self.may_say_hello(*slot));
                Ok(())
            }
            Command::AskAlive(peer) => {
                let connection = self.routes.get(&peer).and_then(|slot| self.connections[*slot as usize].as_ref());
                self.alive.extend(connection.filter(|its| alive::answers(&its.stream)).map(|_| peer));
                Ok(())
            }
            _ => self.inbox.steering.control(command, &self.caps),
        }
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.alive.drain(..).for_each(|peer| each(Notice::PeerAlive(peer)));
        if take(&mut self.has_stranger) {
            each(Notice::StrangerAlive(Address::BROADCAST));
        }
        self.inbox.steering.notices(each);
        if let Some(why) = self.own_address.error() {
            return each(Notice::LinkError(why));
        }
        // A node with several transports would stop using this one after an error, so report none while peers are connected.
        if !self.routes.is_empty() {
            return;
        }
        if self.accept_retry.is_some() {
            return each(Notice::LinkError(NO_DESCRIPTOR));
        }
        self.alone_error().iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn peer(&self, at: Address) -> PeerInfo {
        let connection = self.routes.get(&at).and_then(|slot| self.connections[*slot as usize].as_ref());
        let place = connection.and_then(Connection::listen_address);
        PeerInfo { address: place.map(|place| format!("tcp:{place}")), is_known: connection.is_some(), path: None }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let count = &self.counters;
        each("tcp_sent", count.sent);
        each("tcp_received", count.received);
        each("tcp_send_calls", count.send_calls);
        each("tcp_receive_calls", count.receive_calls);
        each("tcp_connections", self.live.len() as u64);
        each("tcp_peers", self.peer_count() as u64);
        each("tcp_connected", count.connected);
        each("tcp_learned", count.learned);
        each("tcp_not_learned_full", count.not_learned_full);
        each("tcp_not_learned_elsewhere", count.not_learned_elsewhere);
        each("tcp_dialed", count.dialed);
        each("tcp_dial_failed", count.dial_failed);
        each("tcp_accepted", count.accepted);
        each("tcp_accept_failed", count.accept_failed);
        each("tcp_refused_full", count.refused_full);
        each("tcp_closed_ended", count.ended);
        each("tcp_closed_garbage", count.garbage);
        each("tcp_closed_silent", count.silent);
        each("tcp_closed_for_others", count.displaced);
        each("tcp_closed_redundant", count.redundant);
        each("tcp_full", count.full);
        each("tcp_no_frame", self.inbox.no_frame);
        each("tcp_lost_nobody", count.nobody);
        each("tcp_lost_too_long", count.too_long);
        each("tcp_lost_too_long_for_peer", count.too_long_for_peer);
        each("tcp_lost_disconnected", count.disconnected);
        each("tcp_lost_stalled", count.stalled);
        self.inbox.steering.counters(each);
    }
}

/// Bytes beyond the peer's receive window are still on this side. The transport waits until they have left, because the
/// kernel drops them as soon as the peer sends anything to a closed socket. Meanwhile it reads received bytes: closing a
/// socket with unread bytes resets the connection, and the peer may then miss the last frames.
impl Drop for Tcp {
    fn drop(&mut self) {
        // A forked child may have copies of the sockets. Shutting them down ends the connections and frees the port all the same.
        _ = self.listener.get().map(|listener| SockRef::from(listener).shutdown(Shutdown::Both));
        if self.connections.iter().flatten().any(|connection| connection.stream.is_lost()) {
            // The program has closed our descriptors. Their numbers may be its own sockets by now, so write nothing.
            return;
        }
        let (mut bytes, begin) = (vec![0; 1 << 14], Instant::now());
        for connection in self.connections.iter().flatten() {
            // From now on the socket is writable only when everything written has left.
            _ = SockRef::from(&*connection.stream).set_tcp_notsent_lowat(1);
        }
        self.flush();
        while self.connections.iter().flatten().any(|connection| !connection.has_sent_all()) && begin.elapsed() < LINGER
        {
            self.connections.iter().flatten().for_each(|connection| connection.drain(&mut bytes));
            sleep(LINGER_PAUSE);
            self.flush();
        }
        for connection in self.connections.iter().flatten() {
            _ = connection.stream.shutdown(Shutdown::Write);
            connection.drain(&mut bytes);
        }
    }
}
