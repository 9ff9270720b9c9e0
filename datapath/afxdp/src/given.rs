//! A queue that another process has opened, bound and steered. This process has its descriptors and needs no rights: the
//! kernel asks for them when a socket is made, and not when its rings are mapped and used.
//!
//! What arrives is not judged: the caller steers, as with the kernel's own sockets.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use am_ring::own::{Own, high};
use am_ring::{Frame, Layout, LayoutError, Pool};
use am_transport::{Caps, Command, LentQueue, Notice, PeerAddressError, QueueShape, Transport};
use am_wire::frame::ETHERNET_HEADER;
use am_wire::{Address, Buffer};
use libc::{xdp_desc, xdp_mmap_offsets, xdp_ring_offset};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

use crate::chunk_layout::HEADROOM;
use crate::rx::BURST;
use crate::sockopt;
use crate::tx_ring::{End, Ring};

/// Empty chunks that the kernel has in copy mode, until peers get more credits. See `rx.rs`.
const DEFAULT_FILL_LEVEL: usize = 256;

/// Why a queue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GivenQueueError {
    /// The numbers of its shape are none that this version gives.
    #[error("the queue has a shape of another version: start program and daemon of one version")]
    Shape,
    /// The memory is no pool.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// The kernel refused.
    #[error("mapping the rings of the queue: {0}; another process's rings need Linux 6.4 or newer")]
    Map(io::Error),
}

/// The rings of a queue that another process has opened.
///
/// Dropping it closes the socket; then the kernel frees the queue. Frames that the program still holds stay valid.
#[derive(Debug)]
pub struct GivenQueue {
    // Fields are dropped in this order: the rings and the socket (also in `caps`), then the frames that the kernel held.
    rx: Mapped<xdp_desc>,
    fill: Mapped<u64>,
    tx: Mapped<xdp_desc>,
    completion: Mapped<u64>,
    socket: Arc<Own>,
    caps: Caps,
    chunks: Chunks,
    shape: QueueShape,
    /// Empty chunks that the kernel should have, and those that it lacks.
    level: usize,
    missing: usize,
    in_flight: u32,
    counters: Counters,
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
    pub fn new(lent: LentQueue, address: Address, max_frame: usize) -> Result<GivenQueue, GivenQueueError> {
        let LentQueue { socket, memory, shape } = lent;
        let chunks = Chunks::map(&memory, &shape, max_frame)?;
        let at = sockopt::get::<xdp_mmap_offsets>(socket.as_raw_fd(), libc::XDP_MMAP_OFFSETS);
        let at = at.map_err(GivenQueueError::Map)?;
        let socket = Arc::new(Own::new(high(socket)));
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
            wake: Some(vec![socket.clone()]),
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
                    self.in_flight -= 1;
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

    /// Call the kernel until it has taken all frames, or takes no more.
    fn ring_doorbell(&mut self) {
        let mut left = u32::MAX;
        loop {
            self.counters.kicks += 1;
            match send(self.socket.as_raw_fd(), &[], MsgFlags::MSG_DONTWAIT) {
                Err(Errno::ENXIO | Errno::ENODEV) => self.dead = Some("the interface of the queue is gone"),
                Err(Errno::ENETDOWN) => self.counters.link_errors += 1,
                _ => (),
            }
            let before = std::mem::replace(&mut left, self.tx.ring.pending());
            if left == 0 || left == before {
                return;
            }
        }
    }
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
        socket: &OwnedFd,
        offset: i64,
        at: xdp_ring_offset,
        (shape, end): (&QueueShape, End),
    ) -> Result<Mapped<T>, GivenQueueError> {
        let bytes = Ring::<T>::bytes(&at, shape.entries);
        let memory = map(socket, bytes, offset).map_err(GivenQueueError::Map)?;
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

/// The memory of the frames, mapped. The pool keeps it.
struct Memory(NonNull<c_void>, usize);

// SAFETY: memory is not bound to a thread.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length; the pool over it is gone.
        unsafe { libc::munmap(self.0.as_ptr(), self.1) };
    }
}

fn map(descriptor: &OwnedFd, bytes: usize, offset: i64) -> io::Result<NonNull<c_void>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, descriptor.as_raw_fd(), offset) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// The pool, and how often the kernel holds each of its chunks.
#[derive(Debug)]
struct Chunks {
    pool: Pool,
    held: Box<[u16]>,
    chunk: u32,
}

impl Chunks {
    fn map(memory: &OwnedFd, shape: &QueueShape, max_frame: usize) -> Result<Chunks, GivenQueueError> {
        let QueueShape { chunk, chunks, entries, .. } = *shape;
        let fits = HEADROOM + max_frame <= chunk as usize && chunks <= 1 << 20;
        if !chunk.is_power_of_two() || !entries.is_power_of_two() || entries > 1 << 15 || !fits {
            return Err(GivenQueueError::Shape);
        }
        let bytes = chunk as usize * chunks as usize;
        let length = nix::sys::stat::fstat(memory).map_err(|error| GivenQueueError::Map(error.into()))?.st_size;
        if length != bytes as i64 {
            return Err(GivenQueueError::Shape);
        }
        let mapped = Memory(map(memory, bytes, 0).map_err(GivenQueueError::Map)?, bytes);
        let (base, layout) =
            (mapped.0.cast(), Layout { frames: chunks as usize, stride: chunk as usize, headroom: HEADROOM });
        // SAFETY: initialised memory of this length that stays mapped until the pool drops it. Its size is sealed. The kernel
        // accesses only chunks that were put into the rings. The process that made it believes nothing that is in it, and a
        // program trusts that process as it trusts a NIC.
        let pool = unsafe { Pool::over(base, layout, Box::new(mapped))? };
        Ok(Chunks { pool, held: vec![0; layout.frames].into_boxed_slice(), chunk })
    }

    /// Give a frame to the kernel.
    #[inline]
    fn lend(&mut self, frame: Frame) -> xdp_desc {
        let raw = frame.into_raw();
        self.held[raw.index as usize] += 1;
        xdp_desc { addr: raw.offset as u64, len: raw.len, options: 0 }
    }

    /// Take one handle back. `None` for an address that the kernel was never given.
    #[inline]
    fn take_back(&mut self, address: u64, length: u32) -> Option<Frame> {
        let (index, start) = ((address >> self.chunk.ilog2()) as usize, address as u32 & (self.chunk - 1));
        let held = self.held.get_mut(index)?;
        if *held == 0 || start.saturating_add(length) > self.chunk {
            return None;
        }
        *held -= 1;
        // SAFETY: the kernel held a handle, and has given up its access by returning the address. The bytes are in the chunk.
        Some(unsafe { self.pool.from_raw_at(index as u32, start, length) })
    }
}

/// The socket is closed by now.
impl Drop for Chunks {
    fn drop(&mut self) {
        for (index, &held) in self.held.iter().enumerate() {
            for _ in 0..held {
                // SAFETY: the kernel held a handle, and accesses nothing after its socket was closed.
                drop(unsafe { self.pool.from_raw_at(index as u32, HEADROOM as u32, 0) });
            }
        }
    }
}
