//! Rings without xsk-rs. The transmit ring: xsk-rs's descriptors can only begin behind a chunk's headroom, and get their
//! length only through a view of the frame. But a frame of several chunks is sent in place, and its second piece begins at
//! the start of the second chunk. And all rings of a socket that another process has opened: xsk-rs has no call for it.

use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use libc::{c_void, xdp_desc, xdp_mmap_offsets, xdp_ring_offset};

use crate::sockopt;

/// A ring of a bound socket, in a mapping that its owner keeps for as long as the ring. One end is the kernel's.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    memory: NonNull<c_void>,
    at: xdp_ring_offset,
    entries: u32,
    /// Our index, including entries that are not published yet.
    moved: u32,
    /// Our index that the kernel sees.
    published: u32,
    entry: PhantomData<T>,
}

/// The transmit ring, in the mapping of libxdp, which xsk-rs does not give out. Linux before 6.4 refuses a second mapping of
/// a bound socket's ring. It must be dropped before the last of xsk-rs's queues of the socket, which unmaps it.
pub(crate) type TxRing = Ring<xdp_desc>;

impl TxRing {
    /// Find the ring of a bound socket.
    ///
    /// # Errors
    /// The kernel's, or `/proc` is not there.
    pub(crate) fn find(socket: RawFd, entries: u32) -> io::Result<TxRing> {
        let at = sockopt::get::<xdp_mmap_offsets>(socket, libc::XDP_MMAP_OFFSETS)?.tx;
        let bytes = TxRing::bytes(&at, entries);
        let inode = fs::metadata(format!("/proc/self/fd/{socket}"))?.ino();
        let maps = fs::read_to_string("/proc/self/maps")?;
        let address = maps.lines().find_map(|line| ring_address(line, inode, bytes));
        let memory = address.and_then(|address| NonNull::new(ptr::with_exposed_provenance_mut(address)));
        let memory = memory.ok_or_else(|| io::Error::other("the ring is not in /proc/self/maps: mount /proc"))?;
        // SAFETY: a mapping of this ring, at least as long as the length given, that lives as long as the owner's queues.
        Ok(unsafe { Ring::over(memory, at, entries, End::Producer) })
    }
}

/// The end of a ring that is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// We write entries: transmit and fill rings.
    Producer,
    /// We read them: receive and completion rings.
    Consumer,
}

impl<T: Copy> Ring<T> {
    /// Bytes of a ring with `entries` entries.
    pub(crate) fn bytes(at: &xdp_ring_offset, entries: u32) -> usize {
        at.desc as usize + entries as usize * size_of::<T>()
    }

    /// Our end of a mapped ring.
    ///
    /// # Safety
    /// `memory` is a mapping of a ring with these offsets, of at least [`Ring::bytes`], that lives as long as this. `entries`
    /// is a power of two. Nothing else in this process moves this end.
    pub(crate) unsafe fn over(memory: NonNull<c_void>, at: xdp_ring_offset, entries: u32, end: End) -> Ring<T> {
        let mut ring = Ring { memory, at, entries, moved: 0, published: 0, entry: PhantomData };
        let own = if end == End::Producer { at.producer } else { at.consumer };
        ring.published = ring.index(own).load(Ordering::Relaxed);
        ring.moved = ring.published;
        ring
    }

    /// An index or the flags, which are stored before the entries.
    #[inline]
    fn index(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel has reported an aligned 32-bit word of the ring at this offset. The ring stays mapped as
        // long as `self`: its owner keeps the mapping. Shared words are accessed atomically.
        unsafe { self.memory.byte_add(offset as usize).cast::<AtomicU32>().as_ref() }
    }

    #[inline]
    fn entry(&self) -> NonNull<T> {
        let index = (self.moved & (self.entries - 1)) as usize;
        // SAFETY: the index is masked, so it is an entry of the ring, whose memory is mapped and aligned.
        unsafe { self.memory.byte_add(self.at.desc as usize).cast::<T>().add(index) }
    }

    /// Write an entry. The kernel does not see it yet. There must be room: otherwise this overwrites an entry that the
    /// kernel has not read.
    #[inline]
    pub(crate) fn write(&mut self, entry: T) {
        debug_assert!(self.pending() + self.unpublished() < self.entries);
        // SAFETY: a valid entry. The kernel reads no entry beyond those that were published.
        unsafe { self.entry().write(entry) }
        self.moved = self.moved.wrapping_add(1);
    }

    /// Written entries that the kernel does not see yet.
    #[inline]
    pub(crate) fn unpublished(&self) -> u32 {
        self.moved.wrapping_sub(self.published)
    }

    /// Publish the written entries to the kernel. False if there were none.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        self.publish_at(self.at.producer)
    }

    #[inline]
    fn publish_at(&mut self, offset: u64) -> bool {
        let is_new = self.published != self.moved;
        if is_new {
            self.published = self.moved;
            // Release: the kernel must see the entries before the index, or must not overwrite entries before they are read.
            self.index(offset).store(self.published, Ordering::Release);
        }
        is_new
    }

    /// Published entries that the kernel has not taken.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        self.published.wrapping_sub(self.index(self.at.consumer).load(Ordering::Acquire))
    }

    /// Entries for which there is room.
    pub(crate) fn room(&self) -> u32 {
        self.entries.saturating_sub(self.pending().saturating_add(self.unpublished()))
    }

    /// Read the next entry of the kernel. It stays in the ring until it is [released](Ring::release).
    #[inline]
    pub(crate) fn read(&mut self) -> Option<T> {
        if self.index(self.at.producer).load(Ordering::Acquire) == self.moved {
            return None;
        }
        // SAFETY: a valid entry, which the kernel has published and does not touch until it is released. Any bytes are a
        // value of `T`, which has only numbers.
        let entry = unsafe { self.entry().read() };
        self.moved = self.moved.wrapping_add(1);
        Some(entry)
    }

    /// Give the entries that were read back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.publish_at(self.at.consumer);
    }

    /// Whether the kernel waits for a system call.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.index(self.at.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The address in this line of `/proc/self/maps`, if it is of a socket's transmit ring of this length.
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
