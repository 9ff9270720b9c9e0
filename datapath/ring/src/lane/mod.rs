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
//! A record starts with its length, and a length of 0 says that nothing is there yet: the receiver polls the very
//! line that the frame comes in, and sender and receiver share no other for each frame. A frame of 60 bytes and its length
//! fill one line. Before a record becomes visible, the length behind it is set to 0. A record never wraps: where it
//! does not fit before the end, a mark says that the next is at the start.
//!
//! # Nobody is believed
//!
//! The other side may be a broken process, or a third one may write here. So each side keeps its own place, reads a
//! number once, judges it, and uses what it has read; memory is touched through atomics and by instructions of which
//! the compiler assumes nothing. The bytes are copied out before anybody looks at them: a `&[u8]` that
//! changes while it is read would be undefined. What is wrong loses frames of this lane, and nothing else.
//!
//! # Sessions
//!
//! Either side may die and be replaced by one that knows nothing. The two agree on a start:
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
//! B pairs with C and D with A, as in [`spsc`](crate::spsc). Of records that become visible together only the
//! first one's length is stored with Release, and last: until then the receiver does not get to the others. A bit in each length says
//! whether another came with it, so that the receiver of a single frame does not wait for the next line to find nothing there.
//! E and F are the two halves of a sequence lock; G pairs with H, J with K.

#[cfg(not(loom))]
mod copy;
mod receiver;
mod sender;
mod shape;
mod shared;

pub use receiver::{Next, Receiver};
pub use sender::{Full, Sender};
pub use shape::{Pair, Shape, ShapeError};
pub use shared::Shared;
