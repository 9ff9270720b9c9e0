//! Messages that are longer than a frame. The head is a request or a reply with [`HEAD_WORDS`] words. Its payload is the start
//! of the message's payload; the rest follows in [`Segment`](crate::bulk::Segment)s of region [`MESSAGE`].
//!
//! ```text
//!  sender                                              receiver
//!    head: id, total, words, the first bytes ─────────▶  waits for its turn in the order of the connection
//!    segments, up to EAGER bytes ─────────────────────▶  copied to their place
//!    ◀──────────────── Get: this attempt, up to `total`  once it has memory
//!    the other segments ──────────────────────────────▶
//!    ◀───────────────────────────────────────────  Done  all is there: the handler runs
//! ```
//!
//! A receiver without memory drops segments, and later asks for them again, with the number of another attempt. The sender
//! keeps the message until `Done`.
//!
//! [`HEAD_WORDS`]: crate::HEAD_WORDS

use crate::header::MAX_WORDS;

/// The region of segments and notices that belong to messages. No region of a program has this number.
pub const MESSAGE: u32 = 0;

/// The sender sends a message's bytes up to this one before the receiver asks for the rest: 64 KiB, and what a layer puts in front
/// of them.
pub const EAGER: u32 = 65 << 10;

/// What the first word of a head says. The message's own words follow it; unused ones are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The message's number among those of its sender, at most [`Head::MAX_ID`]. Segments and notices carry it as their
    /// transfer.
    pub id: u32,
    /// Bytes of the whole payload.
    pub total: u32,
    /// How many words the message has.
    pub words: u8,
}

impl Head {
    /// Bytes of this word.
    pub const BYTES: usize = 8;

    /// The largest id.
    pub const MAX_ID: u32 = (1 << Self::ID_BITS) - 1;

    const ID_BITS: u32 = 29;

    /// The word: words 3 bits, id 29, total 32.
    pub fn to_bytes(self) -> [u8; Head::BYTES] {
        let high = u32::from(self.words) << Self::ID_BITS | self.id & Self::MAX_ID;
        (u64::from(high) << 32 | u64::from(self.total)).to_be_bytes()
    }

    /// The head at the start of a body, and the rest of it. `None` if it is cut off, or the message has too many words.
    pub fn parse(body: &[u8]) -> Option<(Head, &[u8])> {
        let (word, rest) = body.split_first_chunk::<{ Head::BYTES }>()?;
        let word = u64::from_be_bytes(*word);
        let (high, total) = ((word >> 32) as u32, word as u32);
        let (words, id) = ((high >> Self::ID_BITS) as u8, high & Self::MAX_ID);
        (usize::from(words) <= MAX_WORDS).then_some((Head { id, total, words }, rest))
    }
}
