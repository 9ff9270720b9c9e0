//! The daemon's end of an attachment.
//!
//! The daemon trusts nothing that the program writes. It copies a frame, or its head, out of the lane before it checks it, and each call
//! does a bounded amount of work, whatever is in the lane or in the socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use am_ring::lane::Duplex;
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
            Ok((region, lanes)) => Ok(Port { lanes, socket: self.socket, region, unasked: Unasked::default() }),
            Err(why) => Err((self, why)),
        }
    }

    fn pass_region(&self, welcome: Welcome, queue: Option<LentQueue>) -> Result<(Region, Duplex), WelcomeError> {
        let welcome = Welcome { queue: queue.as_ref().map(|queue| queue.shape), ..welcome };
        let (max_frame, session) = (welcome.max_frame as usize, welcome.session);
        let memory = region::create(max_frame)?;
        let mapped = Region::map(&memory, max_frame, session, End::Daemon)?;
        let packet = FromDaemon::Welcome(welcome).to_bytes();
        let its = queue.iter().flat_map(|queue| [queue.socket.as_fd(), queue.memory.as_fd()]);
        let descriptors: Vec<_> = std::iter::once(memory.as_fd()).chain(its).collect();
        socket::send_with_descriptors(&self.socket, &packet, &descriptors)?;
        Ok(mapped)
    }
}

/// A program that is attached.
#[derive(Debug)]
pub struct Port {
    /// The lanes to the program and from it.
    pub lanes: Duplex,
    socket: OwnedFd,
    region: Region,
    unasked: Unasked,
}

impl Port {
    /// Copy a frame without credit, such as a control frame, into the lane to the program. All such frames get at most half of the lane, and
    /// those of one sender at most an eighth. `false` if there is no room. `sender` is any number that differs between senders.
    #[cold]
    pub fn push_unasked(&mut self, frame: &[u8], sender: u16) -> bool {
        let to = &mut self.lanes.to;
        let (before, released) = to.progress();
        let has_room = !to.is_half_full()
            && self.unasked.has_room(sender, to.lines(), (before, released))
            && to.push(frame).is_ok();
        if has_room {
            self.unasked.add(sender, (before, to.progress().0));
        }
        has_room
    }

    /// How far the program has read its lane. `None` if it has read everything.
    pub fn unread_from(&mut self) -> Option<u32> {
        let (written, released) = self.lanes.to.progress();
        (written != released).then_some(released)
    }

    /// Make the pushed frames visible, and wake the program if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        if self.region.publish(&mut self.lanes) {
            socket::wake(&self.socket);
        }
    }

    /// The daemon is about to sleep: from now on the program wakes it. Look once more after this call.
    pub fn before_sleep(&mut self) {
        self.lanes.repair();
        self.region.asleep().set(false);
    }

    /// The daemon is awake.
    pub fn after_sleep(&self) {
        self.region.asleep().clear();
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
    pub fn end(self) {
        self.region.release(self.lanes);
    }
}
