//! Translation between the pool's handles and addresses in the kernel's rings, for frames of several chunks.
//! [`crate::frames`] does the same for frames of one.

use am_ring::{Frame, Layout, Pool};
use am_wire::Buffer;
use libc::xdp_desc;

use crate::XdpOpenError;
use crate::chunk_layout::{ChunkLayout, HEADROOM};
use crate::errors::{MAX_RING_ENTRIES, XdpOptionsError};
use crate::frames::memory_base;
use crate::options::{Rings, XdpOptions};
use crate::umem::Memory;

use super::RxChunks;

/// More pieces of the frame follow (`XDP_PKT_CONTD`).
const CONTINUED: u32 = 1;

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

/// The shared memory, as frames.
pub(crate) struct LongFrames {
    pool: Pool,
    in_flight: Box<[InFlight]>,
    chunk: usize,
    /// Bytes from one frame to the next.
    stride: usize,
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
    /// [`OpenError::Memory`].
    pub(crate) fn new(mut memory: Memory, options: &XdpOptions) -> Result<(LongFrames, RxChunks), XdpOpenError> {
        let ChunkLayout { chunk, .. } = memory.layout;
        let stride = memory.layout.chunks() * chunk;
        let layout = Layout { frames: frame_count(options, &memory.layout), stride, headroom: HEADROOM };
        let first = layout.frames * memory.layout.chunks();
        if first + options.rings.fill as usize > memory.descriptors.len() {
            return Err(XdpOpenError::Memory { what: format!("frames of {stride} bytes in so few chunks") });
        }
        let base = memory_base(&mut memory);
        // SAFETY: as in `Frames::new`. The frames are the first chunks of the memory; all others, to receive into,
        // begin behind them.
        let pool = unsafe { Pool::over(base, layout, Box::new(memory.umem.clone())) };
        let pool = pool.map_err(|error| XdpOpenError::Memory { what: error.to_string() })?;
        let lent = vec![InFlight::default(); layout.frames].into_boxed_slice();
        let count = options.rings.fill as usize;
        let landings = RxChunks::new(&memory, base, first, count);
        Ok((LongFrames { pool, in_flight: lent, chunk, stride }, landings))
    }

    /// The pool that all frames are from.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The number of ring entries for a frame of this length.
    #[inline]
    pub(crate) fn pieces(&self, length: usize) -> usize {
        (HEADROOM + length).div_ceil(self.chunk)
    }

    /// Give a frame to the kernel to send: `each` gets an entry for each piece, in order. Frames begin where
    /// [`Pool::take`] starts them.
    #[inline]
    pub(crate) fn lend_to_send(&mut self, frame: Frame, mut each: impl FnMut(xdp_desc)) {
        let raw = frame.into_raw();
        debug_assert_eq!(raw.start as usize, HEADROOM);
        let lent = &mut self.in_flight[raw.index as usize];
        lent.handles += 1;
        let (mut at, end) = (raw.offset, raw.offset + raw.len as usize);
        while at < end {
            // A piece ends where its chunk does.
            let next = end.min((at | (self.chunk - 1)) + 1);
            let options = if next < end { CONTINUED } else { 0 };
            each(xdp_desc { addr: at as u64, len: (next - at) as u32, options });
            lent.pieces += 1;
            at = next;
        }
    }

    /// Take a sent piece from the kernel. With the last piece, all handles return: their number is the result. `None`
    /// for a piece that the kernel did not hold.
    #[inline]
    pub(crate) fn take_sent(&mut self, address: usize) -> Option<usize> {
        let index = address / self.stride;
        let lent = self.in_flight.get_mut(index).filter(|lent| lent.pieces > 0)?;
        lent.pieces -= 1;
        if lent.pieces > 0 {
            return Some(0);
        }
        let handles = std::mem::take(&mut lent.handles);
        self.adopt(index, handles);
        Some(handles.into())
    }

    /// Drop handles that the kernel held.
    fn adopt(&self, index: usize, handles: u16) {
        for _ in 0..handles {
            // SAFETY: as many handles were made raw when the frame was sent. The kernel has returned every piece, or
            // its socket is closed.
            drop(unsafe { self.pool.from_raw_at(index as u32, HEADROOM as u32, 0) });
        }
    }

    /// Copy a frame of another pool into one of ours.
    #[cold]
    pub(crate) fn copy(&self, foreign: &Frame) -> Option<Frame> {
        self.pool.copy(foreign.bytes())
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
        let lent = vec![InFlight::default(); 2].into_boxed_slice();
        let mut frames = LongFrames { pool, in_flight: lent, chunk: 4096, stride: layout.stride };
        let _other = frames.pool().take().unwrap();
        let mut frame = frames.pool().take().unwrap();
        frame.set_len(9014);
        assert_eq!(frames.pieces(9014), 3);
        let mut pieces = vec![];
        // Twice, like a frame that is retransmitted while it is still in flight.
        for handle in [frame.share(), frame] {
            frames.lend_to_send(handle, |entry| pieces.push((entry.addr as usize, entry.len, entry.options)));
        }
        let once = [(12288 + 256, 3840, 1), (16384, 4096, 1), (20480, 1078, 0)];
        assert_eq!(pieces, [once, once].concat());
        let home: Vec<_> = pieces.iter().map(|piece| frames.take_sent(piece.0)).collect();
        assert_eq!(home, [Some(0), Some(0), Some(0), Some(0), Some(0), Some(2)]);
        assert_eq!(frames.pool().available(), 1);
        assert_eq!((frames.take_sent(12544), frames.take_sent(1 << 30)), (None, None), "it has nothing more");
    }
}
