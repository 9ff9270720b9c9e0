//! The daemon's end of an attachment.
//!
//! The daemon trusts nothing that the program writes. It copies a frame, or its head, out of the lane before it checks it, and each call
//! does a bounded amount of work, whatever is in the lane or in the socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use am_ring::lane::{Peeked, Relayed};
use am_transport::LentQueue;

use crate::errors::WelcomeError;
use crate::protocol::{FromDaemon, MAX_PACKET, Welcome, heartbeat_in};
use crate::region::{self, End, Region};
use crate::socket::{self, Received};
use crate::unasked::Unasked;

/// The most packets of a program that one call reads. The next call reads the others.
const MAX_PACKETS: usize = 16;

/// A program that has connected and is not attached yet.
#[derive(Debug)]
pub struct Visitor {
    socket: OwnedFd,
}

/// What a visitor has sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// A packet.
    Packet(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The visitor has gone.
    Closed,
}

impl Visitor {
    /// A connection that the daemon's socket has accepted.
    ///
    /// # Errors
    /// The system's.
    pub fn new(socket: OwnedFd) -> io::Result<Visitor> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Visitor { socket })
    }

    /// The descriptor, to wait on and to ask the kernel who the program is.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receive a packet. Descriptors that come with it are not accepted.
    pub fn receive(&self) -> Sent {
        match socket::receive(&self.socket, &mut [0; MAX_PACKET]) {
            Received::Packet(packet) => Sent::Packet(packet.to_vec()),
            Received::Nothing => Sent::Nothing,
            Received::Closed => Sent::Closed,
        }
    }

    /// Answer a packet that is not of the attachment protocol, such as a command of `amd list`.
    ///
    /// # Errors
    /// The system's.
    pub fn answer(&self, packet: &[u8]) -> io::Result<()> {
        socket::send_packet(&self.socket, packet)
    }

    /// Refuse to attach the program, and say why.
    pub fn refuse(self, why: String) {
        // If the program has ended, it needs no answer.
        let _ = socket::send_packet(&self.socket, &FromDaemon::Refused(why).to_bytes());
    }

    /// Attach the program: make the region, and pass it to the program, with its queue if there is one. Afterwards only the program has
    /// the queue.
    ///
    /// # Errors
    /// See [`WelcomeError`].
    pub fn welcome(self, welcome: Welcome, queue: Option<LentQueue>) -> Result<Port, (Visitor, WelcomeError)> {
        match self.pass_region(welcome, queue) {
            Ok(region) => Ok(Port { socket: self.socket, region, unasked: Unasked::default(), repaired: 0 }),
            Err(why) => Err((self, why)),
        }
    }

    fn pass_region(&self, welcome: Welcome, queue: Option<LentQueue>) -> Result<Region, WelcomeError> {
        let welcome = Welcome { queue: queue.as_ref().map(|queue| queue.shape), ..welcome };
        let (max_frame, session) = (welcome.max_frame as usize, welcome.session);
        let memory = region::create(max_frame)?;
        let region = Region::map(&memory, max_frame, session, End::Daemon)?;
        let packet = FromDaemon::Welcome(welcome).to_bytes();
        let its = queue.iter().flat_map(|queue| [queue.socket.as_fd(), queue.memory.as_fd()]);
        let descriptors: Vec<_> = std::iter::once(memory.as_fd()).chain(its).collect();
        socket::send_with_descriptors(&self.socket, &packet, &descriptors)?;
        Ok(region)
    }
}

/// The next frame of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame of this many bytes: [`Port::take`] it.
    Frame(usize),
    /// No frame now.
    Nothing,
    /// The lane has no valid record. The program has to begin a new session.
    Invalid,
}

/// A program that is attached.
#[derive(Debug)]
pub struct Port {
    socket: OwnedFd,
    region: Region,
    unasked: Unasked,
    repaired: u64,
}

impl Port {
    /// Whether [`look`](Self::look) would find nothing. This is cheaper on an idle port.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.region.lanes.from.is_quiet()
    }

    /// Look for a frame of the program.
    #[inline]
    pub fn look(&mut self) -> Next {
        match self.region.lanes.look() {
            Peeked::Frame(length) => Next::Frame(length),
            Peeked::Nothing | Peeked::Closed => Next::Nothing,
            Peeked::Invalid => Next::Invalid,
        }
    }

    /// Copy out the frame that [`look`](Self::look) has just found; `into` must have the length that it returned. `false` if the
    /// program began a new session meanwhile: then the bytes are not a frame.
    #[inline]
    pub fn take(&mut self, into: &mut [u8]) -> bool {
        self.region.lanes.from.take(into)
    }

    /// Copy out the first bytes of the frame of this length that [`look`](Self::look) has just found. `false` if it has fewer bytes.
    #[inline]
    pub fn read_head(&self, into: &mut [u8], length: usize) -> bool {
        self.region.lanes.from.read_head(into, length)
    }

    /// Move the frame of this length that [`look`](Self::look) has just found into the lane of another program. `head` has its first bytes,
    /// as [`read_head`](Self::read_head) copied them out. The frame gets these bytes, because only they were checked: the program may have
    /// changed the lane meanwhile.
    #[inline]
    pub fn relay(&mut self, to: &mut Port, head: &[u8], length: usize) -> Relayed {
        to.region.lanes.to.relay(&mut self.region.lanes.from, head, length)
    }

    /// Whether another frame is in the lane after the last one that was taken.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.region.lanes.from.has_more()
    }

    /// Copy a frame into the lane to the program. `false` if there is no room.
    #[inline]
    pub fn push(&mut self, frame: &[u8]) -> bool {
        self.region.lanes.to.push(frame).is_ok()
    }

    /// Whether a frame of this length has room in the lane to the program.
    pub fn has_room(&mut self, length: usize) -> bool {
        self.region.lanes.to.has_room_for(length)
    }

    /// Copy a frame without credit, such as a control frame, into the lane to the program. All such frames get at most half of the lane, and
    /// those of one sender at most an eighth. `false` if there is no room. `sender` is any number that differs between senders.
    #[cold]
    pub fn push_unasked(&mut self, frame: &[u8], sender: u16) -> bool {
        let (before, released) = self.region.lanes.to.progress();
        let has_room = !self.region.lanes.to.is_half_full()
            && self.unasked.has_room(sender, self.region.lane_lines(), (before, released))
            && self.push(frame);
        if has_room {
            self.unasked.add(sender, (before, self.region.lanes.to.progress().0));
        }
        has_room
    }

    /// How far the program has read its lane. `None` if it has read everything.
    pub fn unread_from(&mut self) -> Option<u32> {
        let (written, released) = self.region.lanes.to.progress();
        (written != released).then_some(released)
    }

    /// Make the pushed frames visible, and wake the program if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        if self.region.publish() {
            socket::wake(&self.socket);
        }
    }

    /// The daemon is about to sleep: from now on the program wakes it. Look once more after this call.
    pub fn before_sleep(&mut self) {
        self.repair();
        self.region.asleep().set();
    }

    /// The daemon is awake.
    pub fn after_sleep(&self) {
        self.region.asleep().clear();
    }

    /// Repair lanes that were overwritten. The daemon calls this from time to time.
    #[cold]
    pub fn repair(&mut self) {
        self.repaired += self.region.repair();
    }

    /// How often a lane had to be repaired.
    pub fn repaired(&self) -> u64 {
        self.repaired
    }

    /// Read the packets of the program: wake-ups and heartbeats, which `heartbeat` gets. `false` if the program has ended, or has closed
    /// its end.
    pub fn read_packets(&self, heartbeat: &mut dyn FnMut(&[u8])) -> bool {
        let mut packet = [0; MAX_PACKET];
        for _ in 0..MAX_PACKETS {
            match socket::receive(&self.socket, &mut packet) {
                Received::Packet(packet) => heartbeat_in(packet).into_iter().for_each(&mut *heartbeat),
                Received::Nothing => return true,
                Received::Closed => return false,
            }
        }
        true
    }

    /// Send a packet to the program. `false` if its socket is full.
    pub fn tell(&self, packet: &FromDaemon) -> bool {
        socket::send_packet(&self.socket, &packet.to_bytes()).is_ok()
    }

    /// The descriptor, to wait on.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The program has ended, or is detached: close the lanes and release their memory to the system, even if the program keeps it mapped.
    /// If the program reads a frame at this time, it notices that the frame is not whole.
    pub fn end(mut self) {
        self.region.release();
    }
}
