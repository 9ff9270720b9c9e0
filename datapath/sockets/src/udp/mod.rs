//! **Frames in UDP datagrams**: each datagram is one frame.
//!
//! ```text
//!   send ──▶ queue ──▶ flush: runs ──▶ one sendmmsg      a frame stays queued only while the socket is full
//!            To::One / To::All
//!                       ▲
//!                  peer table     link address ─▶ socket address, added or learned; bounded
//!                       ▲
//!   each ◀── copied ◀── steering ◀── stage ◀── one recvmmsg
//!            to a frame of the pool   64 KiB a message, in which GRO may have merged many datagrams
//! ```
//!
//! With `connect=` the socket is connected to its only peer. Then the kernel does less work for each datagram, and drops
//! datagrams of other hosts.
//!
//! The transport is neither reliable nor ordered. IP does not fragment datagrams, unless the options ask for it: a frame
//! that exceeds the path's MTU is counted and not sent.
//!
//! # What unknown hosts can do
//!
//! Control frames use the `plain` framing, so their Ethernet source is the sender's own address. Frames for that link
//! address then go to the socket address from which the control frame arrived. Up to 257 link addresses may be behind one
//! socket address. Peers are not authenticated. A host that can send datagrams to this socket can
//!
//! - claim any link address, unless a peer that was added or received from recently has it. Frames for the address then
//!   go to that host. A link address of an added peer can only move to another added peer. A learned one can move after
//!   it has been silent for two beacons;
//! - receive broadcasts, for a small beacon now and then, or direct them to a third host;
//! - cause floods of frames to unknown addresses, at the rate that `FloodLimiter` allows;
//! - fill the table of 16,384 peers and as many learned link addresses: then no new one is learned until some have been
//!   silent for two beacons. Added peers are kept. A learned link address is forgotten after a minute of silence.
//!
//! As with Ethernet, use it on networks whose hosts trust each other.

mod open;
mod out_of_band;
mod peer_table;
mod plan;
mod receive;
mod refusals;
mod send;
mod unanswered;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use am_ring::{Frame, Own};
use am_transport::{Caps, Command, Notice, PeerAddressError, PeerInfo, Steering, Transport};
use am_wire::{Address, Buffer, EtherType, Kind, frame};
pub use open::open;
use out_of_band::UdpOutOfBand;
use peer_table::{FloodLimiter, Learned, PeerTable};
use receive::ReceiveStage;
use send::{Sender, To};

use crate::local_address::LocalAddress;
use crate::peer_address;

/// A UDP socket as a transport.
pub struct Udp {
    caps: Caps,
    socket: Arc<Own<UdpSocket>>,
    out_of_band: Arc<UdpOutOfBand>,
    /// The only peer, if the socket is connected.
    connected: Option<SocketAddr>,
    local: SocketAddr,
    ethertype: EtherType,
    steering: Steering,
    peer_table: PeerTable,
    flood_limiter: FloodLimiter,
    sender: Sender,
    stage: ReceiveStage,
    /// A frame of the pool for the next datagram.
    spare_frame: Option<Frame>,
    counters: Counters,
    own_address: LocalAddress,
    broken: Option<String>,
}

#[derive(Debug, Default)]
struct Counters {
    received: u64,
    learned: u64,
    moved: u64,
    not_learned: u64,
    taken: u64,
    elsewhere: u64,
    own: u64,
    nobody: u64,
    unheard: u64,
    too_long: u64,
    received_too_long: u64,
    no_frame: u64,
}

impl Udp {
    /// Copy the next datagram into this frame. If the datagram is not for this node, the error returns the frame.
    #[inline]
    fn copy_next(&mut self, mut frame: Frame) -> Result<Frame, Frame> {
        let Some((bytes, from)) = self.stage.peek() else { return Err(frame) };
        if bytes.len() > self.caps.max_frame {
            self.counters.received_too_long += 1;
            return Err(frame);
        }
        let Some(space) = frame.space().and_then(|space| space.get_mut(..bytes.len())) else { return Err(frame) };
        space.copy_from_slice(bytes);
        frame.set_len(bytes.len());
        let is_admitted = self.steering.admits(frame.bytes());
        // A frame that steering drops may be for an earlier run of this node. Its sender's address is valid nevertheless.
        let is_plain = frame.bytes().get(12..14) == Some(&self.ethertype.plain().to_be_bytes());
        let is_ours = !is_plain || self.learn_from(frame.bytes(), from);
        if is_admitted && is_ours { Ok(frame) } else { Err(frame) }
    }

    /// Learn the sender's address from a control frame. `false` if this node itself sent the frame.
    fn learn_from(&mut self, bytes: &[u8], from: SocketAddr) -> bool {
        let Ok(parsed) = frame::parse(bytes, self.ethertype) else { return true };
        let source = parsed.source;
        if self.steering.is_served(source) {
            self.counters.own += 1;
            return false;
        }
        let makes_sense = !source.is_group() && source.to_u64() != 0 && peer_address::peer_problem(from).is_none();
        if parsed.header.kind == Kind::Control && makes_sense {
            let count = match self.peer_table.learn(source, from, Instant::now()) {
                Learned::Known => return true,
                Learned::New => &mut self.counters.learned,
                Learned::Moved => &mut self.counters.moved,
                Learned::Full => &mut self.counters.not_learned,
                Learned::TakenByAdded => &mut self.counters.taken,
                Learned::Elsewhere => &mut self.counters.elsewhere,
            };
            *count += 1;
        }
        true
    }

    /// Flood a broadcast, or a frame to an unknown address, to all peers, as a switch does.
    #[cold]
    fn flood(&mut self, to: Address, frame: &Frame) -> bool {
        let now = Instant::now();
        self.peer_table.remove_silent(now);
        if self.peer_table.len() == 0 {
            self.counters.nobody += 1;
            return true;
        }
        if !to.is_group() && !self.flood_limiter.may_flood(now, self.peer_table.len()) {
            self.counters.unheard += 1;
            return true;
        }
        self.sender.push(To::All, frame)
    }

    /// Send this frame to the added peers from which nothing has arrived.
    #[cold]
    fn introduce(&mut self, frame: &[u8]) {
        let Udp { caps, sender, peer_table, .. } = self;
        let Some(frame) = caps.pool.copy(frame) else { return };
        peer_table.unanswered.take_due(Instant::now(), |key| sender.push(To::One(key), &frame));
    }

    fn add_peer(&mut self, place: SocketAddr) -> Result<(), PeerAddressError> {
        if let Some(peer) = self.connected.filter(|peer| *peer != place) {
            let why = format!("this socket is connected to {peer} alone; leave out `connect=` to reach others");
            return Err(PeerAddressError::NoPeer { place: place.to_string(), why });
        }
        // All nodes may share one list of addresses, which contains our own.
        if place == self.local || self.peer_table.add(place) {
            return Ok(());
        }
        Err(PeerAddressError::TooMany { known: self.peer_table.len() })
    }
}

impl Drop for Udp {
    /// Free the address, even if a forked child has a copy of the socket: see `open.rs`. A connected socket is left as it is, because the
    /// child's copy would go on receiving its peer's datagrams.
    fn drop(&mut self) {
        // The heartbeat thread may keep its handle for longer.
        self.out_of_band.close();
        if self.connected.is_none() {
            // If this fails, the address is free when the child ends.
            _ = self.socket.get().map(|socket| socket2::SockRef::from(socket).set_reuse_address(true));
        }
    }
}

impl Transport for Udp {
    #[inline]
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        if self.stage.is_empty()
            && budget > 0
            && let Err(error) = self.stage.poll(&self.socket)
        {
            self.broken = Some(error.to_string());
        }
        let mut taken = 0;
        while taken < budget && !self.stage.is_empty() {
            let Some(blank) = self.spare_frame.take().or_else(|| self.caps.pool.take()) else {
                // The datagram stays in the stage, and later ones stay in the socket.
                self.counters.no_frame += 1;
                break;
            };
            match self.copy_next(blank) {
                Ok(frame) => {
                    taken += 1;
                    each(frame);
                }
                Err(blank) => self.spare_frame = Some(blank),
            }
            self.stage.consume();
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
        match self.peer_table.find(to) {
            Some(key) => self.sender.push(To::One(key), frame),
            None => self.flood(to, frame),
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.sender.flush(&self.socket, &self.peer_table);
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            Command::AddPeer(place) => self.add_peer(peer_address::parse_peer("udp", place, self.local)?),
            Command::Introduce(frame) => {
                self.introduce(frame);
                Ok(())
            }
            Command::RemovePeer(place) => {
                self.peer_table.remove(peer_address::parse_peer("udp", place, self.local)?);
                Ok(())
            }
            _ => self.steering.control(command, &self.caps),
        }
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.steering.notices(each);
        let Udp { broken, own_address, sender, socket, peer_table, .. } = self;
        let error = broken.as_deref().or_else(|| own_address.error());
        let error = error.or_else(|| sender.refusals.error(socket, peer_table));
        error.into_iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn peer(&self, at: Address) -> PeerInfo {
        let key = self.peer_table.find(at);
        let place = key.and_then(|key| SocketAddr::try_from(self.peer_table.get(key)?.clone()).ok());
        PeerInfo { address: place.map(|place| format!("udp:{place}")), is_known: key.is_some(), path: None }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let (sent, stage, count) = (&self.sender.counters, &self.stage.counters, &self.counters);
        each("udp_sent", sent.sent);
        each("udp_received", count.received);
        each("udp_send_calls", sent.calls);
        each("udp_receive_calls", stage.calls);
        each("udp_gso_messages", sent.gso);
        each("udp_gso_refused", sent.gso_refused);
        each("udp_gro_messages", stage.merged);
        each("udp_places", self.peer_table.len() as u64);
        each("udp_learned", count.learned);
        each("udp_learned_moved", count.moved);
        each("udp_not_learned_full", count.not_learned);
        each("udp_not_learned_introduced", count.taken);
        each("udp_not_learned_elsewhere", count.elsewhere);
        each("udp_full", sent.full);
        each("udp_no_frame", count.no_frame);
        each("udp_receive_errors", stage.errors);
        each("udp_lost_nobody", count.nobody);
        each("udp_lost_unheard", count.unheard);
        each("udp_lost_too_long", count.too_long);
        each("udp_lost_longer_than_mtu", sent.path);
        each("udp_lost_no_room", sent.no_room);
        each("udp_lost_no_buffers", sent.no_buffers);
        each("udp_lost_unreachable", sent.unreachable);
        each("udp_lost_refused", sent.refused);
        each("udp_lost_forgotten", sent.forgotten);
        each("udp_lost_send_error", sent.other);
        each("udp_lost_own", count.own);
        each("udp_lost_received_too_long", count.received_too_long);
        each("udp_lost_kernel_full", receive::dropped_by_kernel(&self.socket, self.local.is_ipv4()));
        self.steering.counters(each);
    }
}
