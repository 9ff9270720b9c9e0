//! Frames from one process to one other, as bytes through memory that both write.
//!
//! ```text
//!   Sender                                                   Receiver
//!     │ push     copied in, not visible yet                     ▲ take    copied out, and judged there
//!     │ publish  now all of them are visible                    │ peek    how long is the next?
//!     ▼                                                         │
//!   ┌────────┬──────┬────────────────────┬──────────────────────────────────────────────────┐
//!   │ offered│ tail │ accepted, released │ records, each on whole lines of the cache        │
//!   └────────┴──────┴────────────────────┴──────────────────────────────────────────────────┘
//!     the sender's    the receiver's       ┌──────┬─────────────────┐┌──────┬────────┬────────
//!                                          │length│ bytes           ││length│ bytes  │ 0 …
//!                                          └──────┴─────────────────┘└──────┴────────┴────────
//! ```
//!
//! A record starts with its length; 0 means that nothing is there yet. The receiver polls the line on which the frame
//! arrives, and both sides share no other line for each frame. A frame of 60 bytes and its length fill one line. Before
//! a record becomes visible, the sender sets the length behind it to 0. A record never wraps: if it does not fit before
//! the end, a mark says that the next record is at the start.
//!
//! A [`Duplex`] is the two lanes between two processes, with the loop that receives. A [`SleepWord`] says whether a process has to be woken.
//!
//! # Nobody is believed
//!
//! The other side may be a broken process, and a third process may write here. So each side keeps its own position,
//! reads a number once, checks it, and uses what it has read. Memory is accessed through atomics and by instructions
//! about which the compiler assumes nothing. Bytes are copied out before they are parsed, because a `&[u8]` that
//! changes while it is read would be undefined. A fault loses frames of this lane and nothing else.
//!
//! # Sessions
//!
//! Either side may die and be replaced by a process that knows nothing. The two agree on a start:
//!
//! ```text
//!   sender                                     receiver
//!
//!   store offered = 0, fence           (E)     copy a record, fence                  (F)
//!   store length of the first = 0              load offered: still mine? else forget the copy
//!   store offered = session            (G)     load offered: a new one               (H)
//!                                              store released = 0, accepted = session  (J)
//!   load accepted: only then does      (K)
//!   released count
//! ```
//!
//! The number of a session has a part that says which two processes it is for ([`Pair`]), and a count of starts.
//!
//! # Barriers
//!
//! ```text
//!   load released        (A) Acquire           load length           (C) Acquire
//!   write bytes, next length = 0               read bytes
//!   store length         (B) Release           store released        (D) Release
//! ```
//!
//! B pairs with C and D with A, as in the kernel's `net/xdp/xsk_queue.h`. Of records that become visible together, only the length
//! of the first is stored with Release, and last: the receiver does not reach the others before. A bit in each length
//! says whether another record came with it, so that the receiver of a single frame does not wait for the next line in
//! vain. E and F are the two halves of a sequence lock; G pairs with H, J with K.

mod copy;
mod duplex;
mod holds;
mod receiver;
mod sender;
mod shape;
mod shared;
mod sleep_word;

pub use duplex::{Burst, Duplex, LaneCounters};
pub use holds::Holds;
pub use receiver::{Peeked, Receiver};
pub use sender::{Full, Relayed, Sender};
pub use shape::{LaneLayout, Pair};
pub use shared::Shared;
pub use sleep_word::SleepWord;
