//! **Frames longer than a chunk.** A chunk is at most a page of memory, huge pages
//! or not; an MTU of 9000 or 65000 is frames of 3 to 17 of them, in as many
//! entries of the rings, all but the last marked `XDP_PKT_CONTD`.
//!
//! ```text
//!  memory   ├─ frame 0 ─────────────┼─ frame 1 ─────────────┤ ... ├─ landings ─┬───┬───┤
//!           │ 256 │ one piece of memory, over several chunks │     │ 256│      │   │   │
//!
//!  send     frame ──▶ ⟨rest of its first chunk⟩⟨chunk⟩⟨chunk⟩⟨rest⟩ ──▶ tx ring    no copy
//!  receive  landings ◀── fill ring; rx ring ──▶ ⟨3840⟩⟨3840⟩⟨rest⟩ ──▶ frame       one copy
//! ```
//!
//! A frame of ours stays one piece of memory: chunks that follow each other. So
//! above the seam nothing is different, and it is sent from where it was
//! written. The kernel however begins each chunk that it fills with 256 bytes
//! of headroom; what arrives is in as many pieces with gaps between them, in chunks
//! that belong to nobody else, and is gathered into a frame of the pool. Short
//! frames are copied too: a chunk then never leaves this crate, is soon filled
//! again, and stays in the cache.
//!
//! The copy is the receiver's, which over a veth has the time: the sender's core
//! does the kernel's three (`docs/decisions/0021`).
//!
//! Read first: [`Cut`](crate::cut::Cut), then `frames.rs`, `tx.rs`,
//! `landings.rs`, `rx.rs`.

mod frames;
mod gather;
mod landings;
mod rx;
mod tx;
mod tx_ring;

pub(crate) use frames::{LongFrames, chunks};
pub(crate) use landings::Landings;
pub(crate) use rx::Rx;
pub(crate) use tx::Tx;
