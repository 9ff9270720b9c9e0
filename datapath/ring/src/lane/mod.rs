//! Frames from one process to one other, as bytes through memory that both write.
//!
//! ```text
//!   Sender                                                   Receiver
//!     │ push     copied in, not visible yet                     ▲ take    copied out, and judged there
//!     │ publish  now all of them are visible                    │ peek    is one there, how long?
//!     ▼                                                         │
//!   ┌────────┬──────┬────────────────────┬──────────────────────────────────────────────────┐
//!   │ offered│ tail │ accepted, released │ records, each on whole lines of the cache        │
//!   └────────┴──────┴────────────────────┴──────────────────────────────────────────────────┘
//!     the sender's    the receiver's       ┌──────┬─────────────────┐┌──────┬────────┬────────
//!                                          │ word │ bytes           ││ word │ bytes  │ …
//!                                          └──────┴─────────────────┘└──────┴────────┴────────
//!                                            lap, length, more
//! ```
//!
//! A record starts with a word: the lap through the memory in which it is written, its length, and whether another record became visible
//! together with it. A word of another lap says that nothing is there yet. The receiver polls the line on which the frame arrives, and both
//! sides share no other line for each frame. A frame of 60 bytes and its word fill one line. A record never wraps: if it does not fit before
//! the end, a mark says that the next record is at the start.
//!
//! A line that has other bytes than a word at its start could look like a record: in the first lap of a session, and in the lap after a
//! record of several lines. There the sender clears the word behind a record before that record becomes visible. Where all lines had
//! frames of one line in the lap before, it writes no line but the frame's own.
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
//!   clear the first word                       load offered: still mine? else forget the copy
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
//!   load released        (A) Acquire           load word             (C) Acquire
//!   write bytes, clear the next word           read bytes
//!   store word           (B) Release           store released        (D) Release
//! ```
//!
//! B pairs with C and D with A, as in the kernel's `net/xdp/xsk_queue.h`. Of records that become visible together, only the word
//! of the first is stored with Release, and last: the receiver does not reach the others before. A bit in each word
//! says whether another record came with it, so that the receiver of a single frame does not wait for the next line in
//! vain. A word that is not cleared was read by this receiver in the lap before, so it sees that one or the next. E and F are the two halves of a sequence lock; G pairs with H, J with K.

mod copy;
mod cursor;
mod duplex;
mod holds;
mod receiver;
mod sender;
mod shape;
mod shared;
mod sleep_word;

pub use duplex::{Burst, Duplex, LaneCounters};
pub use holds::Holds;
pub use receiver::{Line, Peeked, Receiver};
pub use sender::{Full, Relayed, Sender};
pub use shape::{LaneLayout, Pair};
pub use shared::{Shared, SharedWord};
pub use sleep_word::SleepWord;
