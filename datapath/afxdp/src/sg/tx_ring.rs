//! The transmit ring, without xsk-rs. Its descriptors can only begin behind a chunk's headroom. But a frame of several
//! chunks is sent in place, and its second piece begins at the start of the second chunk.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_void, socklen_t, xdp_desc, xdp_mmap_offsets, xdp_ring_offset};

/// Flag: the kernel waits for a system call (`XDP_RING_NEED_WAKEUP`).
const NEED_WAKEUP: u32 = 1;

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
    pub(crate) fn map(socket: impl AsFd, entries: u32) -> io::Result<TxRing> {
        let fd = socket.as_fd();
        let at = offsets(fd.as_raw_fd())?;
        let bytes = at.desc as usize + entries as usize * size_of::<xdp_desc>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping of the socket's ring, at an address that the kernel chooses.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd.as_raw_fd(), libc::XDP_PGOFF_TX_RING) };
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

    /// Free entries.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        self.entries - self.written.wrapping_sub(self.index(self.at.consumer).load(Ordering::Acquire))
    }

    /// Write an entry. The kernel does not see it yet. There must be [`room`](Self::room): otherwise this overwrites an
    /// entry that the kernel has not read.
    #[inline]
    pub(crate) fn write(&mut self, entry: xdp_desc) {
        debug_assert!(self.room() > 0);
        let index = (self.written & (self.entries - 1)) as usize;
        // SAFETY: the index is masked, so it is an entry of the ring, whose memory is mapped and aligned. The kernel
        // reads no entry beyond those that were published.
        unsafe { self.memory.byte_add(self.at.desc as usize).cast::<xdp_desc>().add(index).write(entry) }
        self.written = self.written.wrapping_add(1);
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
        self.index(self.at.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and not used again. It is unmapped before the socket is closed: a
        // mapping would keep the socket open.
        unsafe { libc::munmap(self.memory.as_ptr(), self.bytes) };
    }
}

/// The offsets of the parts of the ring in its mapping.
fn offsets(fd: i32) -> io::Result<xdp_ring_offset> {
    let mut offsets = MaybeUninit::<xdp_mmap_offsets>::zeroed();
    let mut bytes = size_of::<xdp_mmap_offsets>() as socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `offsets`; both live across the call.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, offsets.as_mut_ptr().cast(), &raw mut bytes)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain numbers, and zero where the kernel wrote none.
    Ok(unsafe { offsets.assume_init() }.tx)
}
