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
//! Read first: [`ChunkLayout`](crate::chunk_layout::ChunkLayout), then `frames.rs`, `tx.rs`, `rx_chunks.rs`, `rx.rs`.

mod frames;
mod gather;
mod rx;
mod rx_chunks;
mod tx;
mod tx_ring;

pub(crate) use frames::{LongFrames, chunks};
pub(crate) use rx::Rx;
pub(crate) use rx_chunks::RxChunks;
pub(crate) use tx::Tx;
