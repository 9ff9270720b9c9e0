//! How the frames of an interface are laid out in chunks.
//!
//! ```text
//!  copy       ├─ 256, headroom ─┼─ frame ──────────────┤                      chunks of 2048 or 4096 bytes
//!  zero-copy  ├─ 256, headroom ─┼─ 16 ─┼─ frame ─┼─ 12 ─┤    │ not filled │   chunks of 4096 bytes
//!                               │ whole KiB, which the NIC fills │
//! ```
//!
//! In copy mode the kernel copies a frame into the room behind the headroom. In zero-copy mode the NIC writes. It
//! counts the length of a buffer in units of up to 1 KiB, and leaves the rest of a unit empty. A frame that is longer
//! than the whole units arrives in pieces, and some drivers deliver each piece as a good frame. So in zero-copy mode
//! the whole KiB of a chunk must hold the longest frame and what a NIC writes before and behind it (`docs/nics.md` has
//! each driver's unit).

use am_wire::frame::ETHERNET_HEADER;

use crate::XdpOpenError;
use crate::interface::Interface;
use crate::options::MultiBuffer;

/// Bytes before a frame that the kernel keeps for XDP programs (`XDP_PACKET_HEADROOM`).
pub(crate) const HEADROOM: usize = 256;

/// The two chunk sizes that the kernel accepts: half a page and a page.
const CHUNK_SIZES: [usize; 2] = [2048, 4096];

/// The largest unit in which a NIC counts the length of a buffer.
const MAX_LENGTH_UNIT: usize = 1024;

/// Bytes that a NIC may write around the frame: a time stamp before it; two VLAN tags and the check sequence.
const NIC_EXTRA_BYTES: usize = 16 + 2 * 4 + 4;

/// The largest MTU at which each frame fits one chunk, in copy mode.
pub const MAX_SINGLE_CHUNK_MTU: u32 = (Writer::Kernel.room(CHUNK_SIZES[1]) - ETHERNET_HEADER) as u32;

/// The largest MTU at which each frame fits one chunk, in zero-copy mode.
pub const MAX_ZERO_COPY_MTU: u32 = (Writer::Nic.room(CHUNK_SIZES[1]) - ETHERNET_HEADER) as u32;

/// The largest MTU, with frames of several chunks. An IPv4 packet is no longer, and the kernel's packets have at most
/// 17 pages.
pub const MAX_MTU: u32 = 65535;

/// What writes arriving frames into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Copy mode.
    Kernel,
    /// Zero-copy mode.
    Nic,
}

impl Writer {
    /// The longest frame for which a chunk has room.
    const fn room(self, chunk: usize) -> usize {
        match self {
            Writer::Kernel => chunk - HEADROOM,
            Writer::Nic => (chunk - HEADROOM) / MAX_LENGTH_UNIT * MAX_LENGTH_UNIT - NIC_EXTRA_BYTES,
        }
    }
}

/// The chunk layout of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLayout {
    /// Bytes of a chunk.
    pub(crate) chunk: usize,
    /// Bytes of a chunk for received data.
    pub(crate) room: usize,
    /// Bytes of the longest frame.
    pub(crate) max_frame: usize,
}

impl ChunkLayout {
    /// The smallest chunks that hold the longest frame. A NIC always gets whole pages, since it may fill only a part of
    /// them. If no chunk holds the frame, the frame takes several; with [`MultiBuffer::Never`] frames are shorter
    /// instead.
    pub(crate) fn new(interface: &Interface, writer: Writer, several: MultiBuffer) -> ChunkLayout {
        let longest = interface.max_frame();
        let [half, page] = CHUNK_SIZES.map(|chunk| ChunkLayout { chunk, room: writer.room(chunk), max_frame: longest });
        let whole = if writer == Writer::Kernel && half.is_single_chunk() { half } else { page };
        match several {
            MultiBuffer::Never => ChunkLayout { max_frame: longest.min(whole.room), ..whole },
            MultiBuffer::IfNeeded => whole,
        }
    }

    /// # Errors
    /// [`XdpOpenError::Mtu`].
    pub(crate) fn check(interface: &Interface) -> Result<(), XdpOpenError> {
        let Interface { name, mtu, .. } = interface.clone();
        if mtu > MAX_MTU { Err(XdpOpenError::Mtu { interface: name, mtu, most: MAX_MTU }) } else { Ok(()) }
    }

    /// Whether each frame fits one chunk.
    pub(crate) fn is_single_chunk(&self) -> bool {
        self.max_frame <= self.room
    }

    /// Consecutive chunks that hold the longest frame in one piece.
    pub(crate) fn chunks(&self) -> usize {
        (HEADROOM + self.max_frame).div_ceil(self.chunk)
    }

    /// Chunks that the longest received frame takes: each has its own headroom.
    pub(crate) fn rx_chunks(&self) -> usize {
        self.max_frame.div_ceil(self.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{cut, interface};

    #[test]
    fn a_chunk_holds_the_longest_frame() {
        let table = [
            (Writer::Kernel, [(1500, 2048), (1778, 2048), (1779, 4096), (MAX_SINGLE_CHUNK_MTU, 4096)]),
            (Writer::Nic, [(68, 4096), (982, 4096), (1500, 4096), (MAX_ZERO_COPY_MTU, 4096)]),
        ];
        for (writer, rows) in table {
            for (mtu, chunk) in rows {
                let cut = cut(mtu, writer);
                let found = (cut.chunk, cut.is_single_chunk(), cut.chunks(), cut.rx_chunks());
                assert_eq!(found, (chunk, true, 1, 1), "{writer:?}, {mtu}");
            }
        }
        assert_eq!((MAX_SINGLE_CHUNK_MTU, MAX_ZERO_COPY_MTU), (3826, 3030));
    }

    /// Holds for every unit up to 1 KiB that the driver rounds down to.
    #[test]
    fn what_a_nic_fills_holds_the_frame_and_what_is_beside_it() {
        for mtu in [68, 1000, 1500, 1778, 1779, 2034, 3000, MAX_ZERO_COPY_MTU] {
            let ChunkLayout { chunk, .. } = cut(mtu, Writer::Nic);
            for unit in [1, 4, 8, 64, 128, 256, 512, 1024] {
                let filled = (chunk - HEADROOM) / unit * unit;
                assert!(filled >= 16 + 14 + 8 + mtu as usize + 4, "{mtu}, {unit}");
            }
        }
    }

    #[test]
    fn what_no_chunk_holds_lies_in_several() {
        let kernel = [(3827, 2, 2), (9000, 3, 3), (65000, 16, 17), (MAX_MTU, 17, 18)];
        let nic = [(3031, 1, 2), (9000, 3, 3), (9706, 3, 4)];
        for (writer, rows) in [(Writer::Kernel, &kernel[..]), (Writer::Nic, &nic[..])] {
            for &(mtu, chunks, landings) in rows {
                let cut = cut(mtu, writer);
                let found = (cut.is_single_chunk(), cut.chunks(), cut.rx_chunks());
                assert_eq!(found, (false, chunks, landings), "{writer:?}, {mtu}");
            }
        }
        let never = ChunkLayout::new(&interface("igb", 9000), Writer::Kernel, MultiBuffer::Never);
        assert_eq!(never, cut(MAX_SINGLE_CHUNK_MTU, Writer::Kernel));
    }

    #[test]
    fn too_large_an_mtu_is_named_with_one_that_works() {
        assert!(ChunkLayout::check(&interface("igb", MAX_MTU)).is_ok());
        let error = ChunkLayout::check(&interface("igb", 65536)).unwrap_err().to_string();
        assert!(error.contains("MTU of eth1 is 65536") && error.contains("dev eth1 mtu 65535"), "{error}");
    }
}
