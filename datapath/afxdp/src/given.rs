//! A queue that another process has opened, bound and steered. This process has its descriptors and needs no rights: the
//! kernel asks for them when a socket is made, and not when its rings are mapped and used.
//!
//! What arrives is not judged: the caller steers, as with the kernel's own sockets.

use std::error::Error;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_ring::own::{Own, high};
use am_transport::{Caps, Command, LentQueue, Notice, PeerAddressError, QueueShape, Transport};
use am_wire::frame::ETHERNET_HEADER;
use am_wire::{Address, Buffer};
use libc::{xdp_desc, xdp_mmap_offsets, xdp_ring_offset};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

use crate::given_chunks::{Chunks, GivenQueueError, map};
use crate::rx::BURST;
use crate::sockopt;
use crate::tx_ring::{End, Ring};

/// Empty chunks that the kernel has in copy mode, until peers get more credits. See `rx.rs`.
const DEFAULT_FILL_LEVEL: usize = 256;

/// The rings of a queue that another process has opened.
///
/// Dropping it closes the socket; then the kernel frees the queue. Frames that the program still holds stay valid.
#[derive(Debug)]
pub struct GivenQueue {
    // Fields are dropped in this order: the rings and the socket, then the frames that the kernel held.
    rx: Mapped<xdp_desc>,
    fill: Mapped<u64>,
    tx: Mapped<xdp_desc>,
    completion: Mapped<u64>,
    socket: QueueSocket,
    caps: Caps,
    chunks: Chunks,
    shape: QueueShape,
    /// Empty chunks that the kernel should have, and those that it lacks.
    level: usize,
    missing: usize,
    in_flight: u32,
    counters: Counters,
    next_check: Instant,
    /// Why the socket works no more.
    dead: Option<&'static str>,
}

/// Each counter has its field's name with `queue_` in front.
#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    received: u64,
    copied: u64,
    full: u64,
    lost_too_long: u64,
    invalid: u64,
    kicks: u64,
    link_errors: u64,
}

impl GivenQueue {
    /// Use a queue. `address` is the link address whose frames arrive on it, and `max_frame` the longest of them.
    ///
    /// # Errors
    /// See [`GivenQueueError`].
    ///
    /// # Safety
    /// The descriptors are an AF_XDP socket and the memory that is registered with it, from a process that is trusted as a NIC is: it
    /// writes to no frame that the program has. Nothing else in this process uses them or copies of them.
    pub unsafe fn new(lent: LentQueue, address: Address, max_frame: usize) -> Result<GivenQueue, GivenQueueError> {
        let LentQueue { socket, memory, shape } = lent;
        let chunks = Chunks::map(&memory, &shape, max_frame)?;
        let at = sockopt::get::<xdp_mmap_offsets>(socket.as_raw_fd(), libc::XDP_MMAP_OFFSETS);
        let at = at.map_err(GivenQueueError::Map)?;
        let socket = QueueSocket::new(socket).map_err(GivenQueueError::Map)?;
        let level =
            if shape.zero_copy { shape.entries as usize } else { DEFAULT_FILL_LEVEL.min(shape.entries as usize) };
        let caps = Caps {
            name: format!("queue {}", shape.queue),
            mode: format!("queue {}, {}", shape.queue, if shape.zero_copy { "zero-copy" } else { "copy" }),
            address,
            max_frame,
            reliable: false,
            ordered: true,
            hears_all: false,
            pool: chunks.pool.clone(),
            wake: Some(vec![socket.0.clone()]),
            out_of_band: None,
        };
        let mut queue = GivenQueue {
            rx: Mapped::new(&socket, libc::XDP_PGOFF_RX_RING, at.rx, (&shape, End::Consumer))?,
            fill: Mapped::new(&socket, libc::XDP_UMEM_PGOFF_FILL_RING as i64, at.fr, (&shape, End::Producer))?,
            tx: Mapped::new(&socket, libc::XDP_PGOFF_TX_RING, at.tx, (&shape, End::Producer))?,
            completion: Mapped::new(
                &socket,
                libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64,
                at.cr,
                (&shape, End::Consumer),
            )?,
            socket,
            chunks,
            caps,
            shape,
            level,
            missing: level,
            in_flight: 0,
            counters: Counters::default(),
            next_check: Instant::now(),
            dead: None,
        };
        queue.refill();
        Ok(queue)
    }

    /// Give the kernel the empty chunks that it lacks, as long as there are some.
    #[inline]
    fn refill(&mut self) {
        let room = self.missing.min(self.fill.ring.room() as usize);
        for _ in 0..room {
            let Some(frame) = self.chunks.pool.take() else { break };
            let address = self.chunks.lend(frame).addr;
            self.fill.ring.write(address);
            self.missing -= 1;
        }
        self.fill.ring.publish();
    }

    /// Return sent frames to the pool.
    #[inline]
    fn reap(&mut self) {
        while let Some(address) = self.completion.ring.read() {
            match self.chunks.take_back(address, 0) {
                Some(frame) => {
                    // A daemon that writes into the rings must not make the count wrap.
                    self.in_flight = self.in_flight.saturating_sub(1);
                    drop(frame);
                }
                None => self.counters.invalid += 1,
            }
        }
        self.completion.ring.release();
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.shape.entries
    }

    /// Ring the doorbell, which tells whether the socket still has its interface.
    fn call_kernel(&mut self) {
        match send(self.socket.as_raw_fd(), &[], MsgFlags::MSG_DONTWAIT) {
            Err(Errno::ENXIO | Errno::ENODEV) => self.dead = Some("the interface of the queue is gone"),
            Err(Errno::ENETDOWN) => self.counters.link_errors += 1,
            _ => (),
        }
    }

    /// Call the kernel until it has taken all frames, or takes no more.
    fn ring_doorbell(&mut self) {
        let mut left = u32::MAX;
        loop {
            self.counters.kicks += 1;
            self.call_kernel();
            let before = std::mem::replace(&mut left, self.tx.ring.pending());
            if left == 0 || left == before {
                return;
            }
        }
    }
}

/// The same as a transport, for `am_vnic::open_with_queue`.
///
/// # Errors
/// See [`GivenQueueError`].
///
/// # Safety
/// As for [`GivenQueue::new`].
pub unsafe fn open_given(
    lent: LentQueue,
    address: Address,
    max_frame: usize,
) -> Result<Box<dyn Transport>, Box<dyn Error + Send + Sync>> {
    // SAFETY: the caller's promise.
    Ok(Box::new(unsafe { GivenQueue::new(lent, address, max_frame) }?))
}

impl Transport for GivenQueue {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut received = 0;
        while received < budget {
            let Some(xdp_desc { addr, len, options }) = self.rx.ring.read() else { break };
            self.missing += 1;
            received += 1;
            // A frame of several chunks is longer than any of ours.
            let is_whole = options == 0;
            match self.chunks.take_back(addr, len) {
                Some(frame) if is_whole => each(frame),
                _ => self.counters.invalid += 1,
            }
        }
        self.counters.received += received as u64;
        self.rx.ring.release();
        if self.missing > BURST.min(self.level / 4) || received == 0 && self.missing > 0 {
            self.refill();
        }
        if received == 0 && self.shape.zero_copy && self.fill.ring.needs_wakeup() {
            // An error is about the link, which the send path reports as well.
            let _ = recv(self.socket.as_raw_fd(), &mut [], MsgFlags::MSG_DONTWAIT);
        }
        received
    }

    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        if !(ETHERNET_HEADER..=self.caps.max_frame).contains(&frame.bytes().len()) {
            self.counters.lost_too_long += 1;
            return true;
        }
        if !self.has_room() {
            self.reap();
        }
        let is_ours = self.chunks.pool.owns(frame);
        let own = if is_ours { Some(frame.share()) } else { self.chunks.pool.copy(frame.bytes()) };
        let Some(own) = own.filter(|_| self.has_room()) else {
            self.counters.full += 1;
            return false;
        };
        self.counters.copied += u64::from(!is_ours);
        self.counters.sent += 1;
        self.in_flight += 1;
        let entry = self.chunks.lend(own);
        self.tx.ring.write(entry);
        true
    }

    fn flush(&mut self) {
        if self.in_flight == 0 {
            return;
        }
        if (self.tx.ring.publish() || self.tx.ring.pending() > 0) && self.tx.ring.needs_wakeup() {
            self.ring_doorbell();
        }
        self.reap();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        if let Command::RxCredit(frames) = command {
            let wanted = frames.min(self.shape.entries as usize);
            let more = wanted.saturating_sub(self.level);
            (self.level, self.missing) = (self.level + more, self.missing + more);
        }
        command.without_peers(&self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let now = Instant::now();
        // A program that only receives sends nothing that fails.
        if now >= self.next_check {
            self.next_check = now + Duration::from_millis(250);
            if !self.socket.0.is_lost() {
                self.call_kernel();
            }
        }
        self.dead.into_iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let count = &self.counters;
        each("queue_sent", count.sent);
        each("queue_received", count.received);
        each("queue_copied", count.copied);
        each("queue_full", count.full);
        each("queue_lost_too_long", count.lost_too_long);
        each("queue_invalid", count.invalid);
        each("queue_kicks", count.kicks);
        each("queue_link_errors", count.link_errors);
    }
}

/// The socket, and `/dev/null`, opened early so that closing cannot fail.
///
/// Others hold the socket's descriptor, to wait on it ([`Caps::wake`]). But the frames that the kernel has return only when the socket is
/// closed. So the descriptor is redirected to `/dev/null` when this is dropped: the socket closes, and each holder keeps a valid descriptor.
#[derive(Debug)]
struct QueueSocket(Arc<Own>, Own<File>);

impl QueueSocket {
    fn new(socket: OwnedFd) -> io::Result<QueueSocket> {
        Ok(QueueSocket(Arc::new(Own::new(high(socket))), Own::new(high(File::open("/dev/null")?))))
    }
}

impl AsRawFd for QueueSocket {
    #[inline]
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for QueueSocket {
    fn drop(&mut self) {
        // The rings were dropped before this.
        _ = self.1.get().map(|nothing| self.0.replace(nothing));
    }
}

/// One mapped ring.
#[derive(Debug)]
struct Mapped<T> {
    ring: Ring<T>,
    memory: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping is this ring's alone, and its words that the kernel shares are accessed atomically.
unsafe impl<T: Send> Send for Mapped<T> {}

impl<T: Copy> Mapped<T> {
    fn new(
        socket: &QueueSocket,
        offset: i64,
        at: xdp_ring_offset,
        (shape, end): (&QueueShape, End),
    ) -> Result<Mapped<T>, GivenQueueError> {
        let bytes = Ring::<T>::bytes(&at, shape.entries);
        let memory = map(&socket.0, bytes, offset).map_err(GivenQueueError::Map)?;
        // SAFETY: a mapping of the ring, with these bytes, until this is dropped. The shape was checked.
        let ring = unsafe { Ring::over(memory, at, shape.entries, end) };
        Ok(Mapped { ring, memory, bytes })
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and the ring is not used any more.
        unsafe { libc::munmap(self.memory.as_ptr(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::net::UnixDatagram;

    #[test]
    fn the_socket_closes_though_others_wait_on_it() {
        let (socket, other) = UnixDatagram::pair().unwrap();
        let queue = QueueSocket::new(socket.into()).unwrap();
        let wake = queue.0.clone();
        assert!(other.send(b"open").is_ok());
        drop(queue);
        assert!(other.send(b"closed").is_err());
        assert!(nix::sys::stat::fstat(&wake).is_ok(), "what the others have is a descriptor");
    }
}
