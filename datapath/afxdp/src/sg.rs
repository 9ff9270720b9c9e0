//! **Frames longer than a chunk.** A chunk is at most a page of memory, even in huge pages. At an MTU of 9000 or 65000
//! a frame takes 3 to 17 chunks, and as many entries of the rings. All but the last are marked `XDP_PKT_CONTD`.
//!
//! ```text
//!  memory   ├─ frame 0 ─────────────┼─ frame 1 ─────────────┤ ... ├─ rx chunks ┬───┬───┤
//!           │ 256 │ one piece of memory, over several chunks │     │ 256│      │   │   │
//!
//!  send     frame ──▶ ⟨rest of its first chunk⟩⟨chunk⟩⟨chunk⟩⟨rest⟩ ──▶ tx ring    no copy
//!  receive  rx chunks ──▶ fill ring; rx ring ──▶ ⟨3840⟩⟨3840⟩⟨rest⟩ ──▶ frame      one copy
//! ```
//!
//! A frame of ours stays contiguous: chunks that follow each other. So nothing is different above the transport, and
//! the frame is sent from where it was written. But the kernel begins each chunk that it fills with 256 bytes of
//! headroom. So a received frame is in pieces with gaps between them. These arrive in chunks of their own, and are
//! gathered into a frame of the pool. Short frames are copied too: so a receive chunk never leaves this crate, is soon
//! filled again, and stays in the cache.
//!
//! The receiver makes the copy. Over a veth it has the time, because the sender's core makes the kernel's three
//! (`docs/decisions/0021`).
//!
//! Read first: [`ChunkLayout`], then [`crate::frames`], which does the same for frames of one chunk.

use std::slice;

use am_ring::{Frame, Layout, Pool};
use am_wire::Buffer;
use libc::xdp_desc;

use crate::XdpOpenError;
use crate::chunk_layout::{ChunkLayout, HEADROOM};
use crate::errors::{MAX_RING_ENTRIES, XdpOptionsError};
use crate::frames::FrameTable;
use crate::options::{Rings, XdpOptions};
use crate::stats::RxCounters;
use crate::umem::Memory;

/// Chunks of a huge page. Memory that is no multiple of it cannot be in huge pages.
const CHUNKS_PER_HUGE_PAGE: usize = 512;

/// The number of chunks for this interface: those to receive into, one for each entry of the fill ring, and those of as
/// many frames as are useful.
///
/// # Errors
/// [`XdpOptionsError::Pieces`], if a ring has fewer entries than a frame has chunks.
pub(crate) fn chunks(options: &XdpOptions, cut: &ChunkLayout) -> Result<u32, XdpOptionsError> {
    if cut.is_single_chunk() {
        return Ok(options.frames);
    }
    let Rings { rx, tx, fill, completion } = options.rings;
    let pieces = cut.rx_chunks();
    if [rx, tx, fill, completion].iter().any(|&entries| (entries as usize) < pieces) {
        return Err(XdpOptionsError::Pieces { pieces });
    }
    let chunks = frame_count(options, cut) * cut.chunks() + options.rings.fill as usize;
    Ok(chunks.next_multiple_of(CHUNKS_PER_HUGE_PAGE).min(options.frames as usize) as u32)
}

/// Half of a node's frames are for reception. More frames than the receive chunks can fill are useless.
fn frame_count(options: &XdpOptions, cut: &ChunkLayout) -> usize {
    let landings = options.rings.fill as usize;
    let most = (options.frames as usize).saturating_sub(landings) / cut.chunks();
    most.min(2 * landings / cut.rx_chunks()).max(1)
}

/// The most bytes that wait for the doorbell. The kernel copies them on this core, and should find them in the cache.
const MAX_UNSENT_BYTES: usize = 128 << 10;

/// The shared memory, as frames of several chunks and, behind them, chunks to receive into.
pub(crate) struct LongFrames {
    pool: Pool,
    in_flight: Box<[InFlight]>,
    chunk: usize,
    /// Bytes from one frame to the next.
    stride: usize,
    rx_chunks: RxChunks,
    gather: Gather,
    /// Whether the pool was empty at the last receive.
    is_starving: bool,
}

/// The kernel's share of a frame.
#[derive(Clone, Copy, Default)]
struct InFlight {
    /// Handles: one for each time that it is being sent.
    handles: u16,
    /// Pieces of it in ring entries.
    pieces: u16,
}

const _: () = assert!(MAX_RING_ENTRIES <= u16::MAX as u32);

impl LongFrames {
    /// Divide the memory into frames and, behind them, chunks to receive into.
    ///
    /// # Errors
    /// [`XdpOpenError::Memory`].
    pub(crate) fn new(memory: Memory, options: &XdpOptions) -> Result<LongFrames, XdpOpenError> {
        let (cut, count) = (memory.layout, options.rings.fill as usize);
        let stride = cut.chunks() * cut.chunk;
        let layout = Layout { frames: frame_count(options, &cut), stride, headroom: HEADROOM };
        let first = layout.frames * cut.chunks();
        if first + count > memory.chunks {
            return Err(XdpOpenError::Memory { what: format!("frames of {stride} bytes in so few chunks") });
        }
        Ok(LongFrames::with(memory.into_pool(layout)?, cut.chunk, RxChunks::new(first, count)))
    }

    fn with(pool: Pool, chunk: usize, rx_chunks: RxChunks) -> LongFrames {
        let Layout { frames, stride, .. } = pool.layout();
        let in_flight = vec![InFlight::default(); frames].into_boxed_slice();
        LongFrames { pool, in_flight, chunk, stride, rx_chunks, gather: Gather::Nothing, is_starving: false }
    }

    /// Drop handles that the kernel held.
    fn adopt(&self, index: usize, handles: u16) {
        for _ in 0..handles {
            // SAFETY: as many handles were made raw when the frame was sent. The kernel has returned every piece, or
            // its socket is closed.
            drop(unsafe { self.pool.from_raw_at(index as u32, HEADROOM as u32, 0) });
        }
    }
}

impl FrameTable for LongFrames {
    const MAX_UNSENT_BYTES: usize = MAX_UNSENT_BYTES;

    fn pool(&self) -> &Pool {
        &self.pool
    }

    /// As many as can be gathered with the frames that the pool has left.
    #[inline]
    fn receivable(&mut self, counters: &mut RxCounters) -> usize {
        let has_begun = !matches!(self.gather, Gather::Nothing);
        let left = self.pool.available() + usize::from(has_begun);
        counters.starved += u64::from(left == 0 && !self.is_starving);
        self.is_starving = left == 0;
        left
    }

    #[inline]
    fn lend_empty(&mut self) -> Option<u64> {
        let index = self.rx_chunks.available.pop()? as usize;
        self.rx_chunks.is_lent[index] = true;
        Some(((self.rx_chunks.first + index) * self.chunk) as u64)
    }

    #[inline]
    fn take_received(&mut self, entry: &xdp_desc, each: &mut dyn FnMut(Frame)) -> Option<bool> {
        let (address, length) = (entry.addr as usize, entry.len as usize);
        let piece = self.rx_chunks.take_back(address, length, self.chunk).then(|| {
            // SAFETY: the bytes are in a chunk of the memory, which the system has zeroed, and which the pool keeps
            // mapped. No handle of the pool leads to it. By putting its address into one of our rings the kernel has
            // given up its access. Only `lend_empty` gives the chunk to the kernel again, and the slice is gone by
            // then.
            unsafe { slice::from_raw_parts(self.pool.base().as_ptr().add(address), length) }
        });
        self.gather.add(&self.pool, piece, entry.options & libc::XDP_PKT_CONTD != 0, each)
    }

    #[inline]
    fn pieces(&self, length: usize) -> usize {
        (HEADROOM + length).div_ceil(self.chunk)
    }

    #[inline]
    fn lend_to_send(&mut self, frame: Frame, mut each: impl FnMut(xdp_desc)) {
        let raw = frame.into_raw();
        debug_assert_eq!(raw.start as usize, HEADROOM);
        let lent = &mut self.in_flight[raw.index as usize];
        lent.handles += 1;
        let (mut at, end) = (raw.offset, raw.offset + raw.len as usize);
        while at < end {
            // A piece ends where its chunk does.
            let next = end.min((at | (self.chunk - 1)) + 1);
            let options = if next < end { libc::XDP_PKT_CONTD } else { 0 };
            each(xdp_desc { addr: at as u64, len: (next - at) as u32, options });
            lent.pieces += 1;
            at = next;
        }
    }

    /// All handles return with the last piece.
    #[inline]
    fn take_sent(&mut self, address: u64) -> Option<usize> {
        let index = address as usize / self.stride;
        let lent = self.in_flight.get_mut(index).filter(|lent| lent.pieces > 0)?;
        lent.pieces -= 1;
        if lent.pieces > 0 {
            return Some(0);
        }
        let handles = std::mem::take(&mut lent.handles);
        self.adopt(index, handles);
        Some(handles.into())
    }
}

/// The socket is closed by now, so the kernel neither returns nor accesses frames any more.
impl Drop for LongFrames {
    fn drop(&mut self) {
        for (index, lent) in self.in_flight.iter().enumerate() {
            self.adopt(index, lent.handles);
        }
    }
}

/// Chunks into which the kernel receives, piece by piece: the last ones of the memory. No frame of the pool is ever in
/// them.
struct RxChunks {
    /// The index of the first.
    first: usize,
    /// Whether the kernel holds each chunk.
    is_lent: Box<[bool]>,
    /// The others. The last returned is on top, because it is in the cache.
    available: Vec<u32>,
}

impl RxChunks {
    fn new(first: usize, count: usize) -> RxChunks {
        let is_lent = vec![false; count].into_boxed_slice();
        RxChunks { first, is_lent, available: (0..count as u32).rev().collect() }
    }

    /// Take a chunk from the kernel. False for one that the kernel did not hold, which would be a bug of the kernel.
    #[inline]
    fn take_back(&mut self, address: usize, length: usize, chunk: usize) -> bool {
        let Some(index) = (address >> chunk.ilog2()).checked_sub(self.first) else { return false };
        if self.is_lent.get(index) != Some(&true) || (address & (chunk - 1)) + length > chunk {
            return false;
        }
        self.is_lent[index] = false;
        self.available.push(index as u32);
        true
    }
}

/// The state of the frame that is being received.
#[derive(Debug, Default)]
enum Gather {
    /// The next piece is a frame's first.
    #[default]
    Nothing,
    /// A frame, and how many of its bytes have arrived.
    Begun(Frame, usize),
    /// The frame is lost: its other pieces are discarded.
    Discarding,
}

impl Gather {
    /// Add a piece; `None` is an invalid one. `more`: whether others follow. With the last, `each` gets the frame.
    /// Returns whether it did; `None` at the end of a frame that was too long, or for which the pool had no frame.
    #[inline]
    fn add(&mut self, pool: &Pool, piece: Option<&[u8]>, more: bool, each: &mut dyn FnMut(Frame)) -> Option<bool> {
        let begun = match std::mem::take(self) {
            Gather::Nothing => pool.take().map(|frame| (frame, 0)),
            Gather::Begun(frame, length) => Some((frame, length)),
            Gather::Discarding => None,
        };
        let grown = begun.zip(piece).and_then(|((mut frame, length), piece)| {
            let end = length + piece.len();
            frame.space()?.get_mut(length..end)?.copy_from_slice(piece);
            Some((frame, end))
        });
        if more {
            *self = grown.map_or(Gather::Discarding, |(frame, length)| Gather::Begun(frame, length));
            return Some(false);
        }
        let (mut frame, length) = grown?;
        frame.set_len(length);
        each(frame);
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(mtu: usize) -> ChunkLayout {
        ChunkLayout { chunk: 4096, room: 3840, max_frame: mtu + 14 }
    }

    #[test]
    fn memory_is_no_more_than_asked_for_and_enough_for_what_lands() {
        let options = XdpOptions::new("eth1");
        for (mtu, expected, total) in [(9000, 1365, 6144), (65000, 240, 6144), (65535, 227, 6144)] {
            assert_eq!(frame_count(&options, &long(mtu)), expected, "{mtu}");
            assert_eq!(chunks(&options, &long(mtu)).unwrap(), total, "{mtu}");
        }
        assert_eq!(
            chunks(&options, &ChunkLayout { chunk: 2048, room: 1792, max_frame: 1514 }).unwrap(),
            options.frames
        );
        let small = XdpOptions { rings: Rings { tx: 16, ..options.rings }, ..options };
        assert_eq!(chunks(&small, &long(65000)), Err(XdpOptionsError::Pieces { pieces: 17 }));
    }

    #[test]
    fn a_frame_is_sent_piece_by_piece_and_comes_home_with_the_last() {
        let layout = Layout { frames: 2, stride: 3 * 4096, headroom: HEADROOM };
        let pool = Pool::heap(layout).unwrap();
        let mut frames = LongFrames::with(pool, 4096, RxChunks::new(6, 0));
        let _other = frames.pool().take().unwrap();
        let mut frame = frames.pool().take().unwrap();
        frame.set_len(9014);
        assert_eq!(frames.pieces(9014), 3);
        let mut pieces = vec![];
        // Twice, like a frame that is retransmitted while it is still in flight.
        for handle in [frame.share(), frame] {
            frames.lend_to_send(handle, |entry| pieces.push((entry.addr, entry.len, entry.options)));
        }
        let once = [(12288 + 256, 3840, 1), (16384, 4096, 1), (20480, 1078, 0)];
        assert_eq!(pieces, [once, once].concat());
        let home: Vec<_> = pieces.iter().map(|piece| frames.take_sent(piece.0)).collect();
        assert_eq!(home, [Some(0), Some(0), Some(0), Some(0), Some(0), Some(2)]);
        assert_eq!(frames.pool().available(), 1);
        assert_eq!((frames.take_sent(12544), frames.take_sent(1 << 30)), (None, None), "it has nothing more");
    }

    fn pool() -> Pool {
        Pool::heap(Layout { frames: 1, stride: 128, headroom: 8 }).unwrap()
    }

    /// The frame that a piece completes.
    fn add(gather: &mut Gather, pool: &Pool, piece: Option<&[u8]>, more: bool) -> (Option<bool>, Vec<u8>) {
        let mut whole = Vec::new();
        (gather.add(pool, piece, more, &mut |frame| whole = frame.bytes().to_vec()), whole)
    }

    const PART: (Option<bool>, Vec<u8>) = (Some(false), Vec::new());
    const LOST: (Option<bool>, Vec<u8>) = (None, Vec::new());

    fn whole(bytes: &[u8]) -> (Option<bool>, Vec<u8>) {
        (Some(true), bytes.to_vec())
    }

    #[test]
    fn pieces_become_a_frame() {
        let (pool, mut gather) = (pool(), Gather::default());
        assert_eq!(add(&mut gather, &pool, Some(b"short"), false), whole(b"short"));
        assert_eq!(add(&mut gather, &pool, Some(b"one "), true), PART);
        assert_eq!(add(&mut gather, &pool, Some(b"after "), true), PART);
        assert_eq!(add(&mut gather, &pool, Some(b"the other"), false), whole(b"one after the other"));
        assert_eq!(pool.available(), 1);
    }

    /// A frame that is too long, finds no room, or has an invalid piece: nothing of it is seen, and the next one is
    /// whole.
    #[test]
    fn what_cannot_be_a_frame_is_lost_as_a_whole() {
        let (pool, mut gather) = (pool(), Gather::default());
        let long = [7; 100];
        for pieces in [[Some(&long[..]), Some(&long[..]), Some(&long[..])], [Some(&long[..]), None, Some(&long[..1])]] {
            assert_eq!(add(&mut gather, &pool, pieces[0], true), PART);
            assert_eq!(add(&mut gather, &pool, pieces[1], true), PART);
            assert_eq!(add(&mut gather, &pool, pieces[2], false), LOST);
            assert_eq!(pool.available(), 1, "its frame went home");
        }
        let held = pool.take();
        assert_eq!(add(&mut gather, &pool, Some(b"none is left"), false), LOST);
        drop(held);
        assert_eq!(add(&mut gather, &pool, Some(b"well"), false), whole(b"well"));
    }
}
