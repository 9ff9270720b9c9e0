//! **The only shared memory.** Frames, the pool that they come from, and the lanes that carry them from one process to
//! another. All memory that threads and NICs share is here, and so is the `unsafe` code that it needs.
//!
//! A [`Pool`] is memory cut into equal chunks. A [`Frame`] is an owned handle
//! on one of them. It may be shared, sent to another thread, lent to a NIC;
//! dropping its last handle gives it back.
//!
//! ```text
//!                   take                      into_raw
//!        ┌─────────────────────▶ Frame ─────────────────────▶ RawFrame
//!        │                      │  ▲  ▲                          │
//!      Pool               share │  │  └───── from_raw_at ───────┘
//!   local list                  ▼  │                 (a NIC has it)
//!        ▲                      Frame ──── moved ───▶ another thread
//!        │                        │                        │
//!        ├────── last drop ───────┘                        │ last drop
//!        └───── all at once, when empty ◀── remote stack ◀─┘
//! ```
//!
//! # Who owns a frame when
//!
//! | the frame is | held by | its bytes may be |
//! | --- | --- | --- |
//! | free | its pool, in one of two lists | touched by nobody |
//! | being written | one `Frame` | read and written through it |
//! | sent, and kept until acknowledged | a `RawFrame` (NIC) and a `Frame` (retransmit queue) | read by both |
//! | sent, and acknowledged before the NIC is done with it | a `RawFrame` | read by the NIC |
//! | waiting in the fill ring | a `RawFrame`, the only handle | written by the NIC |
//! | received | one `Frame` | read and written through it |
//! | received and kept by a handler | that `Frame`, until the handler drops it | read and written through it |
//! | crossing a thread | the `Frame` in a queue | touched by nobody |
//!
//! Each handle counts. While there is more than one, raw ones included,
//! [`space`](am_wire::Buffer::space) gives nothing, so what a NIC reads stays as
//! it is. Through the safe interface a frame cannot be freed twice, written
//! while it is read, or outlive its memory.
//!
//! # What it costs
//!
//! On the pool's own thread, taking a frame, sharing it for the first time and
//! dropping it while no other handle is left are plain loads and stores; only
//! the drop of one handle among several is an atomic read-modify-write. From
//! another thread, the last drop is one compare-and-swap, and the owner takes
//! back all that came home so with one swap (the scheme is that of the mimalloc
//! allocator: Leijen, Zorn, de Moura, "Free list sharding in action"). Nothing is
//! allocated after the pool is open.
//!
//! # Processes
//!
//! A forked child has a copy of everything that its parent has open. [`Owner`] knows that it is a copy, [`Owned`] does not drop it there,
//! and [`ProcessRc`] finds the fork at the first use in the child, at no cost.
//!
//! # Memory of others
//!
//! [`ForeignMemory`] is memory that a program has registered by an `unsafe` call. A node copies into it what arrives, until it is dropped.
//!
//! # Read first
//!
//! [`Pool`] and [`Frame`]; then `slot.rs`, the count of a frame, and `region.rs`, which frees the memory with the last of pool
//! and frames, in any order; then [`LeaseTable`] for places that other threads hold, and
//! [`WakeFlag`] for threads that sleep. [`lane`]
//! stands alone: frames to another process, through memory that nobody trusts.
//!
//! # How it is tested
//!
//! Against models (a set, a list) with random steps; between real threads; and
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p am-ring --tests --target-dir target/loom         every interleaving
//! MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p am-ring                 every rule about pointers
//! scripts/sanitize                                                                   this, and sanitizers
//! ```
//!
//! ```
//! use am_ring::{Layout, Pool};
//! use am_wire::Buffer;
//!
//! let pool = Pool::heap(Layout { frames: 64, stride: 2048, headroom: 256 })?;
//! let mut frame = pool.take().expect("64 are free");
//! frame.space().expect("nobody shares it")[..5].copy_from_slice(b"hello");
//! frame.set_len(5);
//!
//! let kept = frame.share();
//! std::thread::spawn(move || assert_eq!(frame.bytes(), b"hello")).join().unwrap();
//! assert_eq!(pool.available(), 63);
//! drop(kept);
//! assert_eq!(pool.available(), 64);
//! # Ok::<(), am_ring::LayoutError>(())
//! ```
#![allow(unsafe_code, reason = "memory that threads share")]

mod foreign;
mod frame;
pub mod lane;
mod layout;
mod lease;
mod mapping;
pub mod own;
mod pool;
mod process;
mod process_rc;
mod region;
mod remote;
mod slot;
mod sync;
mod wake_flag;
mod wiped;

pub use foreign::{ForeignMemory, ForeignPart};
pub use frame::{Frame, RawFrame};
pub use layout::{Layout, LayoutError};
pub use lease::{Lease, LeaseTable};
pub use mapping::Mapping;
pub use own::Own;
pub use pool::{Pool, prefetch};
pub use process::{Owned, Owner, is_forked_child};
pub use process_rc::{Disown, ProcessRc, ProcessWeak, Ref, RefMut};
pub use wake_flag::WakeFlag;
