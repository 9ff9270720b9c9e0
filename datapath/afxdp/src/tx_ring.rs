//! The transmit ring, without xsk-rs. Its descriptors can only begin behind a chunk's headroom, and get their length
//! only through a view of the frame. But a frame of several chunks is sent in place, and its second piece begins at the
//! start of the second chunk.

use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use libc::{c_void, xdp_desc, xdp_mmap_offsets, xdp_ring_offset};

use crate::sockopt;

/// The ring, in the mapping of libxdp, which xsk-rs does not give out. Linux 5.10 and 6.1 refuse a second mapping of a bound
/// socket's ring. It must be dropped before the last of xsk-rs's queues of the socket, which unmaps it.
pub(crate) struct TxRing {
    memory: NonNull<c_void>,
    at: xdp_ring_offset,
    entries: u32,
    /// The producer index, including entries that are not published yet.
    written: u32,
    /// The producer index that the kernel sees.
    published: u32,
}

impl TxRing {
    /// Find the ring of a bound socket.
    ///
    /// # Errors
    /// The kernel's, or `/proc` is not there.
    pub(crate) fn find(socket: RawFd, entries: u32) -> io::Result<TxRing> {
        let at = sockopt::get::<xdp_mmap_offsets>(socket, libc::XDP_MMAP_OFFSETS)?.tx;
        let bytes = at.desc as usize + entries as usize * size_of::<xdp_desc>();
        let inode = fs::metadata(format!("/proc/self/fd/{socket}"))?.ino();
        let maps = fs::read_to_string("/proc/self/maps")?;
        let address = maps.lines().find_map(|line| ring_address(line, inode, bytes));
        let memory = address.and_then(|address| NonNull::new(ptr::with_exposed_provenance_mut(address)));
        let memory = memory.ok_or_else(|| io::Error::other("the ring is not in /proc/self/maps: mount /proc"))?;
        let mut ring = TxRing { memory, at, entries, written: 0, published: 0 };
        ring.published = ring.index(ring.at.producer).load(Ordering::Relaxed);
        ring.written = ring.published;
        Ok(ring)
    }

    /// An index or the flags, which are stored before the entries.
    #[inline]
    fn index(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel has reported an aligned 32-bit word of the ring at this offset. The ring stays mapped as
        // long as `self`: its owner keeps a queue of the socket. Shared words are accessed atomically.
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

/// The address in this line of `/proc/self/maps`, if it is of a socket's transmit ring of so many bytes.
fn ring_address(line: &str, inode: u64, bytes: usize) -> Option<usize> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let offset = i64::from_str_radix(fields.nth(1)?, 16).ok()?;
    let is_ours = offset == libc::XDP_PGOFF_TX_RING && fields.nth(1)?.parse() == Ok(inode);
    (is_ours && end - start >= bytes).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_found_by_socket_and_offset() {
        let line = "7f00ff000000-7f00ff009000 rw-s 80000000 00:08 4711    socket:[4711]";
        assert_eq!(ring_address(line, 4711, 0x9000), Some(0x7f00_ff00_0000));
        let others = [
            ("7f00ff000000-7f00ff009000 rw-s 80000000 00:08 4712    socket:[4712]", 0x9000),
            ("7f00ff000000-7f00ff009000 rw-s 00000000 00:08 4711    socket:[4711]", 0x9000),
            (line, 0x9001),
            ("", 0),
        ];
        for (line, bytes) in others {
            assert_eq!(ring_address(line, 4711, bytes), None, "{line}");
        }
    }
}
