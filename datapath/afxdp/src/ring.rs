//! **The four rings of an AF_XDP socket, and the owner of a chunk.**
//!
//! A chunk has one owner at a time. An entry that is published in a ring hands the chunk over.
//!
//! ```text
//!  receive    free ──▶ fill ring ══▶ kernel, NIC ══▶ rx ring ──▶ program ──▶ free
//!  owner      free   │         fill                │   rx      │ program   │ free
//!
//!  send       free ──▶ program ──▶ tx ring ══▶ kernel, NIC ══▶ completion ring ──▶ free
//!  owner      free   │ program   │         tx                │   completion      │ free
//!
//!             ──▶ by this process    ══▶ by the kernel
//! ```
//!
//! | owner | the chunk | reads its bytes | writes its bytes |
//! | --- | --- | --- | --- |
//! | free | is in the pool, or on a stack of the bare peer | nobody | nobody |
//! | fill | is empty, in the fill ring or in the NIC's own ring | kernel, NIC | kernel, NIC |
//! | rx | is filled, and waits in the rx ring | nobody | nobody |
//! | program | is a frame that was taken or received | program | program, through the only handle |
//! | tx | is being sent, once for each handle that was queued | kernel, NIC, other handles | nobody |
//! | completion | is sent, and waits in the completion ring | other handles | nobody |
//!
//! A ring has two indices, the producer's and the consumer's. They only grow. This process produces into the fill and
//! the tx ring, and consumes from the others. Each side stores its index after it has accessed the entries (release),
//! and loads the other's before it accesses them (acquire).
//!
//! The rings carry addresses only. Their users know which chunks the kernel owns:
//!
//! | user | opens the socket | maps the rings | knows the kernel's chunks by |
//! | --- | --- | --- | --- |
//! | the node: [`Rx`](crate::rx::Rx), [`Tx`](crate::tx::Tx) | xsk-rs ([`crate::bind`]) | libxdp | a count per chunk ([`crate::frames`]) |
//! | a lent queue ([`crate::given`]): `Rx`, `Tx` | another process | [`SocketRings::map`] | a count per chunk |
//! | the bare peer ([`crate::raw`]) | xsk-rs | libxdp | the chunk's place; it trusts the kernel |
//!
//! libxdp maps the rings before it binds the socket, and does not give out the addresses. Linux before 6.4 refuses to map
//! the rings of a bound socket again. So [`SocketRings::find`] reads the addresses in `/proc/self/maps`. Entries are not
//! moved through xsk-rs: its calls into C are not inlined, and its descriptors begin behind a chunk's headroom, but the
//! pieces of a long frame do not.

use std::any::Any;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use am_ring::Mapping;
use libc::{c_void, xdp_desc, xdp_mmap_offsets, xdp_ring_offset};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use xsk_rs::{CompQueue, FillQueue, RxQueue, TxQueue};

use crate::options::Rings;
use crate::sockopt;

/// The end of a ring that is ours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// We write entries: fill and tx.
    Producer,
    /// We read entries: rx and completion.
    Consumer,
}

/// Our end of one ring. The other end is the kernel's.
pub(crate) struct Ring<T> {
    entries: NonNull<T>,
    /// One less than the number of entries, which is a power of two.
    mask: u32,
    /// The indices that both sides see, and the flags.
    our_index: NonNull<AtomicU32>,
    kernel_index: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    /// Our index, including entries that are not published yet.
    moved: u32,
    /// Our index that the kernel sees.
    published: u32,
    /// The kernel's index when it was last read. Another core writes it, so it is read no more often than needed.
    seen: u32,
    /// Keeps the memory mapped.
    _mapped: Keep,
}

/// What keeps memory mapped.
type Keep = Arc<dyn Any + Send + Sync>;

// SAFETY: this end of the ring is this value's alone, and memory is not bound to a thread.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Our end of the ring at this offset of its socket's file.
    ///
    /// # Safety
    /// As for [`SocketRings::over`]. Any bytes are a `T`.
    unsafe fn over(
        view: &dyn Fn(i64, usize) -> io::Result<View>,
        offset: i64,
        at: &xdp_ring_offset,
        entries: u32,
        end: End,
    ) -> io::Result<Ring<T>> {
        let (memory, mapped) = view(offset, at.desc as usize + entries as usize * size_of::<T>())?;
        let (our, kernel) = if end == End::Producer { (at.producer, at.consumer) } else { (at.consumer, at.producer) };
        // SAFETY: the kernel reports offsets within the ring, of aligned words and entries.
        let [our_index, kernel_index, flags, first] =
            [our, kernel, at.flags, at.desc].map(|offset| unsafe { memory.byte_add(offset as usize) });
        let mut ring = Ring {
            entries: first.cast(),
            mask: entries - 1,
            our_index: our_index.cast(),
            kernel_index: kernel_index.cast(),
            flags: flags.cast(),
            moved: 0,
            published: 0,
            seen: 0,
            _mapped: mapped,
        };
        ring.published = ring.word(ring.our_index).load(Ordering::Relaxed);
        ring.moved = ring.published;
        ring.seen = ring.load_kernel_index();
        Ok(ring)
    }

    /// A word that both sides access.
    #[inline]
    fn word(&self, at: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: callers pass one of the ring's three words. They stay mapped as long as `self`, and both sides access
        // them atomically.
        unsafe { at.as_ref() }
    }

    #[inline]
    fn load_kernel_index(&self) -> u32 {
        self.word(self.kernel_index).load(Ordering::Acquire)
    }

    #[inline]
    fn entry(&self) -> NonNull<T> {
        // SAFETY: the index is masked, so it is an entry of the ring, which is mapped.
        unsafe { self.entries.add((self.moved & self.mask) as usize) }
    }

    /// Entries of the ring.
    pub(crate) fn entries(&self) -> u32 {
        self.mask + 1
    }

    /// Producer: entries for which there is room. The kernel's index is read only where fewer than `wanted` are known.
    #[inline]
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        if self.entries().saturating_sub(self.moved.wrapping_sub(self.seen)) < wanted {
            self.seen = self.load_kernel_index();
        }
        // Another process may write anything into the rings of its queue.
        self.entries().saturating_sub(self.moved.wrapping_sub(self.seen))
    }

    /// Producer: write an entry. The kernel does not see it yet. The caller owns its chunk, and does not access it until the
    /// kernel has returned it. There must be room: otherwise this overwrites an entry that the kernel has not read.
    #[inline]
    pub(crate) fn write(&mut self, entry: T) {
        debug_assert!(self.room(1) > 0);
        // SAFETY: a valid entry. The kernel reads no entry beyond those that were published.
        unsafe { self.entry().write(entry) }
        self.moved = self.moved.wrapping_add(1);
    }

    /// Producer: write and publish all of these entries, or none where there is no room for all. Returns how many.
    #[inline]
    pub(crate) fn write_all(&mut self, entries: &[T]) -> usize {
        if (self.room(entries.len() as u32) as usize) < entries.len() {
            return 0;
        }
        entries.iter().for_each(|&entry| self.write(entry));
        self.publish();
        entries.len()
    }

    /// Producer: written entries that the kernel does not see yet.
    #[inline]
    pub(crate) fn unpublished(&self) -> u32 {
        self.moved.wrapping_sub(self.published)
    }

    /// Producer: published entries that the kernel has not taken.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        self.published.wrapping_sub(self.load_kernel_index())
    }

    /// Show the kernel the entries that were written, or free those that were read. False if there were none.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let is_new = self.published != self.moved;
        if is_new {
            self.published = self.moved;
            // Release: the kernel must see the entries before the index, or must not overwrite entries before they are read.
            self.word(self.our_index).store(self.published, Ordering::Release);
        }
        is_new
    }

    /// Consumer: entries that can be read. The kernel's index is read only where none are known.
    #[inline]
    pub(crate) fn available(&mut self) -> usize {
        if self.seen == self.moved {
            self.seen = self.load_kernel_index();
        }
        // Another process may write anything into the rings of its queue: it costs one turn of the ring at most.
        self.seen.wrapping_sub(self.moved).min(self.entries()) as usize
    }

    /// Consumer: read at most this many entries. They are freed together when the iterator is dropped.
    #[inline]
    pub(crate) fn drain(&mut self, most: usize) -> Drain<'_, T> {
        Drain { left: self.available().min(most), ring: self }
    }

    /// Whether the kernel waits for a system call.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Entries that the kernel has published. See [`Ring::drain`].
pub(crate) struct Drain<'ring, T: Copy> {
    ring: &'ring mut Ring<T>,
    left: usize,
}

impl<T: Copy> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: the kernel has published the entry, and does not touch it until we publish. Any bytes are a `T`.
        let entry = unsafe { self.ring.entry().read() };
        self.ring.moved = self.ring.moved.wrapping_add(1);
        Some(entry)
    }
}

impl<T: Copy> Drop for Drain<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.ring.publish();
    }
}

/// The rings of reception.
pub(crate) struct RxRings {
    pub(crate) rx: Ring<xdp_desc>,
    pub(crate) fill: Ring<u64>,
    pub(crate) socket: RawFd,
}

impl RxRings {
    /// Have the kernel look for frames and empty chunks.
    pub(crate) fn wake(&self) {
        // An error is about the link, and the send path reports it as well.
        let _ = recv(self.socket, &mut [], MsgFlags::MSG_DONTWAIT);
    }
}

/// The rings of sending.
pub(crate) struct TxRings {
    pub(crate) tx: Ring<xdp_desc>,
    pub(crate) completion: Ring<u64>,
    socket: RawFd,
}

impl TxRings {
    /// Ring the doorbell: have the kernel send what is in the tx ring. Success means that it took everything.
    pub(crate) fn wake(&self) -> Result<(), Errno> {
        send(self.socket, &[], MsgFlags::MSG_DONTWAIT).map(drop)
    }
}

/// The rings of a bound socket. The owner keeps the socket open for as long as them.
pub(crate) struct SocketRings {
    pub(crate) receiving: RxRings,
    pub(crate) sending: TxRings,
}

/// The rings as xsk-rs opens them. The last of them that is dropped unmaps all and closes the socket.
pub(crate) type Opened = (RxQueue, TxQueue, FillQueue, CompQueue);

/// A ring in memory, and what keeps it mapped.
type View = (NonNull<c_void>, Keep);

impl SocketRings {
    /// The rings of a bound socket, in the mappings of libxdp.
    ///
    /// # Errors
    /// The kernel's, or `/proc` is not there.
    pub(crate) fn find(opened: Opened, sizes: &Rings) -> io::Result<SocketRings> {
        let socket = opened.0.fd().as_raw_fd();
        let inode = fs::metadata(format!("/proc/self/fd/{socket}"))?.ino();
        let maps = fs::read_to_string("/proc/self/maps")?;
        let opened: Keep = Arc::new(Mutex::new(opened));
        let view = |offset, bytes| {
            let address = maps.lines().find_map(|line| ring_address(line, inode, offset, bytes));
            let memory = address.and_then(|address| NonNull::new(ptr::with_exposed_provenance_mut(address)));
            let memory = memory.ok_or_else(|| io::Error::other("the ring is not in /proc/self/maps: mount /proc"))?;
            Ok((memory, opened.clone()))
        };
        // SAFETY: libxdp's mappings, at least as long as the rings, live as long as what xsk-rs opened. Nothing uses that but
        // to keep it. xsk-rs accepts only powers of two.
        unsafe { SocketRings::over(socket, sizes, &view) }
    }

    /// The rings of a socket that another process has bound, each with this many entries.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Safety
    /// `entries` is a power of two. Nothing else in this process uses the rings. The socket stays open as long as they do.
    pub(crate) unsafe fn map(socket: BorrowedFd<'_>, entries: u32) -> io::Result<SocketRings> {
        let sizes = Rings { rx: entries, tx: entries, fill: entries, completion: entries };
        let view = |offset, bytes| {
            let mapping = Mapping::populated(socket, offset, bytes)?;
            Ok((mapping.base().cast(), Arc::new(mapping) as Keep))
        };
        // SAFETY: mappings of the rings, each for as long as its ring. The rest is the caller's promise.
        unsafe { SocketRings::over(socket.as_raw_fd(), &sizes, &view) }
    }

    /// # Safety
    /// `view` gets the offset of a ring in its socket's file, and its length. It returns a mapping of it, which lives as long
    /// as what is beside it. The sizes are powers of two, and nothing else in this process uses the rings.
    unsafe fn over(
        socket: RawFd,
        sizes: &Rings,
        view: &dyn Fn(i64, usize) -> io::Result<View>,
    ) -> io::Result<SocketRings> {
        const FILL: i64 = libc::XDP_UMEM_PGOFF_FILL_RING as i64;
        const COMPLETION: i64 = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
        let at = sockopt::get::<xdp_mmap_offsets>(socket, libc::XDP_MMAP_OFFSETS)?;
        // SAFETY: the caller's promise. Both kinds of entries are numbers.
        unsafe {
            let tx = Ring::over(view, libc::XDP_PGOFF_TX_RING, &at.tx, sizes.tx, End::Producer)?;
            let completion = Ring::over(view, COMPLETION, &at.cr, sizes.completion, End::Consumer)?;
            let rx = Ring::over(view, libc::XDP_PGOFF_RX_RING, &at.rx, sizes.rx, End::Consumer)?;
            let fill = Ring::over(view, FILL, &at.fr, sizes.fill, End::Producer)?;
            let receiving = RxRings { rx, fill, socket };
            Ok(SocketRings { receiving, sending: TxRings { tx, completion, socket } })
        }
    }

    /// The socket's descriptor, borrowed from its rings.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as the rings are, and the borrow keeps them.
        unsafe { BorrowedFd::borrow_raw(self.receiving.socket) }
    }
}

/// The address in this line of `/proc/self/maps`, if it is of the ring with this offset of a socket, and long enough.
fn ring_address(line: &str, inode: u64, ring: i64, bytes: usize) -> Option<usize> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let offset = i64::from_str_radix(fields.nth(1)?, 16).ok()?;
    let is_ours = offset == ring && fields.nth(1)?.parse() == Ok(inode);
    (is_ours && end - start >= bytes).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicU64;

    const TX: i64 = libc::XDP_PGOFF_TX_RING;

    #[test]
    fn the_ring_is_found_by_socket_and_offset() {
        let line = "7f00ff000000-7f00ff009000 rw-s 80000000 00:08 4711    socket:[4711]";
        assert_eq!(ring_address(line, 4711, TX, 0x9000), Some(0x7f00_ff00_0000));
        let others = [
            ("7f00ff000000-7f00ff009000 rw-s 80000000 00:08 4712    socket:[4712]", 0x9000),
            ("7f00ff000000-7f00ff009000 rw-s 00000000 00:08 4711    socket:[4711]", 0x9000),
            (line, 0x9001),
            ("", 0),
        ];
        for (line, bytes) in others {
            assert_eq!(ring_address(line, 4711, TX, bytes), None, "{line}");
        }
    }

    const OFFSETS: xdp_ring_offset = xdp_ring_offset { producer: 0, consumer: 64, flags: 128, desc: 192 };

    /// A ring of four entries, and its other end.
    fn two_ends(first: u32) -> (Ring<u64>, Ring<u64>) {
        let words = u64::from(first) << 32 | u64::from(first);
        let memory: Arc<[AtomicU64]> = (0..28).map(|_| AtomicU64::new(words)).collect();
        let base = NonNull::from(&memory[..]).cast();
        let memory: Keep = Arc::new(memory);
        let view = |_, bytes| {
            assert_eq!(bytes, 224);
            Ok((base, memory.clone()))
        };
        // SAFETY: memory of this length, which is kept. Words and entries are as aligned as it.
        let end = |end| unsafe { Ring::over(&view, 0, &OFFSETS, 4, end) }.unwrap();
        (end(End::Producer), end(End::Consumer))
    }

    #[test]
    fn entries_pass_in_order_once_they_are_published() {
        // The indices wrap on the way.
        let (mut ours, mut kernels) = two_ends(u32::MAX - 5);
        for round in 0..10 {
            ours.write(2 * round);
            ours.write(2 * round + 1);
            assert_eq!((ours.unpublished(), ours.pending(), kernels.available()), (2, 0, 0));
            assert!(ours.publish() && !ours.publish());
            assert_eq!((ours.unpublished(), ours.pending()), (0, 2));
            assert_eq!(kernels.drain(1).collect::<Vec<_>>(), [2 * round]);
            assert_eq!(ours.pending(), 1);
            assert_eq!(kernels.drain(9).collect::<Vec<_>>(), [2 * round + 1]);
        }
    }

    #[test]
    fn a_full_ring_takes_nothing_until_entries_are_freed() {
        let (mut ours, mut kernels) = two_ends(0);
        assert_eq!(ours.write_all(&[1, 2, 3]), 3);
        assert_eq!(ours.write_all(&[4, 5]), 0, "all or none");
        assert_eq!((ours.room(1), ours.write_all(&[4]), ours.room(1)), (1, 1, 0));
        let mut drain = kernels.drain(4);
        assert_eq!((drain.next(), ours.room(1)), (Some(1), 0), "it is being read");
        drop(drain);
        assert_eq!(ours.room(1), 1, "the others were not read");
        assert_eq!(kernels.drain(4).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(ours.room(4), 4);
    }
}
