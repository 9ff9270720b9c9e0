//! The transmit ring, without xsk-rs. Its descriptors can only begin behind a chunk's headroom, and get their length
//! only through a view of the frame. But a frame of several chunks is sent in place, and its second piece begins at the
//! start of the second chunk.

use std::io;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_void, xdp_desc, xdp_mmap_offsets, xdp_ring_offset};

use crate::sockopt;

/// The ring. It is mapped a second time beside xsk-rs's own mapping, which stays unused.
pub(crate) struct TxRing {
    memory: NonNull<c_void>,
    bytes: usize,
    at: xdp_ring_offset,
    entries: u32,
    /// The producer index, including entries that are not published yet.
    written: u32,
    /// The producer index that the kernel sees.
    published: u32,
}

impl TxRing {
    /// Map the ring of a bound socket.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn map(socket: RawFd, entries: u32) -> io::Result<TxRing> {
        let at = sockopt::get::<xdp_mmap_offsets>(socket, libc::XDP_MMAP_OFFSETS)?.tx;
        let bytes = at.desc as usize + entries as usize * size_of::<xdp_desc>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping of the socket's ring, at an address that the kernel chooses.
        let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, socket, libc::XDP_PGOFF_TX_RING) };
        let memory =
            NonNull::new(memory).filter(|_| memory != libc::MAP_FAILED).ok_or_else(io::Error::last_os_error)?;
        let mut ring = TxRing { memory, bytes, at, entries, written: 0, published: 0 };
        ring.published = ring.index(ring.at.producer).load(Ordering::Relaxed);
        ring.written = ring.published;
        Ok(ring)
    }

    /// An index or the flags, which are stored before the entries.
    #[inline]
    fn index(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel has reported an aligned 32-bit word of the ring at this offset. The ring stays mapped as
        // long as `self`, and shared words are accessed atomically.
        unsafe { self.memory.byte_add(offset as usize).cast::<AtomicU32>().as_ref() }
    }

    /// Write an entry. The kernel does not see it yet. There must be room: otherwise this overwrites an entry that the
    /// kernel has not read.
    #[inline]
    pub(crate) fn write(&mut self, entry: xdp_desc) {
        debug_assert!(self.pending() + self.unpublished() < self.entries);
        let index = (self.written & (self.entries - 1)) as usize;
        // SAFETY: the index is masked, so it is an entry of the ring, whose memory is mapped and aligned. The kernel
        // reads no entry beyond those that were published.
        unsafe { self.memory.byte_add(self.at.desc as usize).cast::<xdp_desc>().add(index).write(entry) }
        self.written = self.written.wrapping_add(1);
    }

    /// Written entries that the kernel does not see yet.
    #[inline]
    pub(crate) fn unpublished(&self) -> u32 {
        self.written.wrapping_sub(self.published)
    }

    /// Publish the written entries to the kernel. False if there were none.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let is_new = self.published != self.written;
        if is_new {
            self.published = self.written;
            // Release: the kernel must see the entries before the index.
            self.index(self.at.producer).store(self.published, Ordering::Release);
        }
        is_new
    }

    /// Published entries that the kernel has not taken.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        self.published.wrapping_sub(self.index(self.at.consumer).load(Ordering::Acquire))
    }

    /// Whether the kernel waits for a system call.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.index(self.at.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and not used again. It is unmapped before the socket is closed: a
        // mapping would keep the socket open.
        unsafe { libc::munmap(self.memory.as_ptr(), self.bytes) };
    }
}
