//! What the words and the payload of a message mean.
//!
//! ```text
//!   handler id   the kind
//!   word 0       handler │ number of arguments, kind │ flags │ the tag's low 40 bits
//!   words 1, 2   arguments 0 to 3, two in a word
//!   word 3       the rest of the tag
//!   payload      of transfers and gets: id, bytes, offset │ arguments 4 to 15 │ data
//! ```
//!
//! Zeros at the end of the words do not travel: the padding of a short frame then has room for the acknowledgement of what the peer has sent.

use std::ffi::c_int;

/// The most arguments of a message.
pub(crate) const MAX_ARGUMENTS: usize = 16;
/// The most bytes of a medium message.
pub(crate) const MAX_MEDIUM: usize = 1 << 16;
/// The most bytes of a transfer.
pub(crate) const MAX_LONG: usize = 1 << 24;
/// Arguments that travel in words.
const IN_WORDS: usize = 4;
/// The bytes of an [`Extent`].
const EXTENT: usize = 16;
/// Where the kind begins in the first word, behind the number of arguments, and the tag.
const KIND_AT: u32 = 13;
const TAG_AT: u32 = 24;
/// The most bytes of a payload.
pub(crate) const MAX_PAYLOAD: usize = EXTENT + (MAX_ARGUMENTS - IN_WORDS) * 4 + MAX_LONG;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Arguments only.
    Short,
    /// Arguments and bytes, handed to the handler.
    Medium,
    /// Arguments and bytes, which go to memory that the receiver knows.
    Transfer,
    /// A request for bytes of the segment.
    Get,
    /// A message that could not be delivered.
    Returned,
    /// The sender's name, first on a connection.
    Hello,
    /// The last request on a connection, and its answer, which comes after all others.
    Last,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] =
        [Kind::Short, Kind::Medium, Kind::Transfer, Kind::Get, Kind::Returned, Kind::Hello, Kind::Last];

    pub(crate) fn of(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Where the bytes of a transfer are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Of a get: its number at the side that asks.
    pub(crate) id: u32,
    /// All of its bytes.
    pub(crate) bytes: u32,
    /// The offset in the segment; of an answer to a get, the get's number.
    pub(crate) base: u64,
}

/// A message's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) handler: u8,
    /// The data answers a get.
    pub(crate) is_get: bool,
    pub(crate) tag: u64,
    arguments: [i32; MAX_ARGUMENTS],
    count: usize,
    pub(crate) extent: Option<Extent>,
}

impl Header {
    /// `None` if there are too many arguments.
    pub(crate) fn new(kind: Kind, handler: u8, tag: u64, arguments: &[i32], extent: Option<Extent>) -> Option<Header> {
        let mut all = [0; MAX_ARGUMENTS];
        all.get_mut(..arguments.len())?.copy_from_slice(arguments);
        Some(Header { kind, handler, is_get: false, tag, arguments: all, count: arguments.len(), extent })
    }

    /// The head of a get's answer.
    pub(crate) fn answer(&self, extent: Extent) -> Header {
        Header { kind: Kind::Transfer, is_get: true, extent: Some(extent), ..*self }
    }

    /// The call that sent it, as in `am.h`. `None` of a message of the library.
    pub(crate) fn operation(&self, is_reply: bool) -> Option<c_int> {
        Some(match (self.kind, is_reply) {
            // The answer to a get is the get's.
            _ if self.is_get => 7,
            (Kind::Short, false) => 1,
            (Kind::Medium, false) => 2,
            (Kind::Transfer, false) => 3,
            (Kind::Short, true) => 4,
            (Kind::Medium, true) => 5,
            (Kind::Transfer, true) => 6,
            (Kind::Get, _) => 7,
            (Kind::Returned | Kind::Hello | Kind::Last, _) => return None,
        })
    }

    pub(crate) fn arguments(&self) -> &[i32] {
        &self.arguments[..self.count]
    }

    pub(crate) fn words(&self) -> [u64; 4] {
        let first = u64::from(self.handler) | (self.count as u64) << 8 | (self.kind as u64) << KIND_AT;
        let pair = |at: usize| {
            let [low, high] = [at, at + 1].map(|at| u64::from(self.arguments[at].cast_unsigned()));
            low | high << 32
        };
        let first = first | u64::from(self.is_get) << 16 | self.tag << TAG_AT;
        [first, pair(0), pair(2), self.tag >> (u64::BITS - TAG_AT)]
    }

    /// What comes before the data in the payload.
    #[inline]
    pub(crate) fn prefix(&self) -> Vec<u8> {
        if self.extent.is_none() && self.count <= IN_WORDS { vec![] } else { self.long_prefix() }
    }

    #[inline(never)]
    fn long_prefix(&self) -> Vec<u8> {
        let mut prefix = vec![];
        if let Some(Extent { id, bytes, base }) = self.extent {
            prefix.extend_from_slice(&id.to_le_bytes());
            prefix.extend_from_slice(&bytes.to_le_bytes());
            prefix.extend_from_slice(&base.to_le_bytes());
        }
        self.arguments().iter().skip(IN_WORDS).for_each(|argument| prefix.extend_from_slice(&argument.to_le_bytes()));
        prefix
    }

    /// Read a message; returns the data behind the head. `None` for one that makes no sense.
    pub(crate) fn parse<'a>(words: &[u64; 4], payload: &'a [u8]) -> Option<(Header, &'a [u8])> {
        let [first, low, high, tag] = *words;
        let [handler, sort, flags, ..] = first.to_le_bytes();
        let (kind, count) = (Kind::of(sort >> (KIND_AT - 8))?, usize::from(sort & 0x1f));
        let tag = first >> TAG_AT | tag << (u64::BITS - TAG_AT);
        let mut arguments = [0; MAX_ARGUMENTS];
        let pairs = [low as i32, (low >> 32) as i32, high as i32, (high >> 32) as i32];
        arguments[..IN_WORDS].copy_from_slice(&pairs);
        let (extent, rest) = match kind {
            Kind::Transfer | Kind::Get => {
                let (head, rest) = payload.split_at_checked(EXTENT)?;
                let [id, bytes] =
                    [0, 4].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
                (Some(Extent { id, bytes, base: u64::from_le_bytes(head[8..].try_into().ok()?) }), rest)
            }
            _ => (None, payload),
        };
        let more = count.saturating_sub(IN_WORDS);
        let (texts, data) = rest.split_at_checked(more * 4)?;
        for (place, text) in arguments.get_mut(IN_WORDS..IN_WORDS + more)?.iter_mut().zip(texts.chunks_exact(4)) {
            *place = i32::from_le_bytes(text.try_into().ok()?);
        }
        Some((Header { kind, handler, is_get: flags & 1 == 1, tag, arguments, count, extent }, data))
    }
}

/// The words that travel: a missing one is read as 0.
pub(crate) fn without_zeros(words: &[u64; 4]) -> &[u64] {
    let zeros = words.iter().rev().take_while(|word| **word == 0).count();
    &words[..words.len() - zeros]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_arguments_survives() {
        let numbers: Vec<i32> = (0..17).map(|at| (at - 8) * 0x0765_4321).collect();
        let extent = Some(Extent { id: 7, bytes: u32::MAX, base: u64::MAX - 3 });
        for count in 0..=MAX_ARGUMENTS {
            for (kind, extent) in
                [(Kind::Short, None), (Kind::Medium, None), (Kind::Transfer, extent), (Kind::Get, extent)]
            {
                let mut header = Header::new(kind, 200, u64::MAX - 9, &numbers[..count], extent).unwrap();
                header.is_get = kind == Kind::Transfer;
                let mut payload = header.prefix();
                payload.extend_from_slice(b"data");
                assert_eq!(Header::parse(&header.words(), &payload), Some((header, &b"data"[..])));
                assert_eq!(header.arguments(), &numbers[..count]);
            }
        }
        assert_eq!(Header::new(Kind::Short, 1, 0, &numbers, None), None);
    }

    /// Sixteen bytes and one word leave room for an acknowledgement in the smallest frame, and with two words they do not.
    #[test]
    fn zeros_do_not_travel() {
        let length = |tag: u64, arguments: &[i32]| {
            let header = Header::new(Kind::Medium, 9, tag, arguments, None).unwrap();
            let mut read = [0; 4];
            let words = header.words();
            let travels = without_zeros(&words);
            read[..travels.len()].copy_from_slice(travels);
            assert_eq!(Header::parse(&read, b""), Some((header, &b""[..])));
            travels.len()
        };
        assert_eq!((length(0, &[]), length((1 << 40) - 1, &[0; 4]), length(7, &[-1])), (1, 1, 2));
        assert_eq!((length(7, &[1, 2, 3]), length(7, &[0, 0, 0, 4]), length(1 << 40, &[])), (3, 3, 4));
    }

    #[test]
    fn what_makes_no_sense_is_none() {
        let words = |kind: u64, count: u64| [count << 8 | kind << KIND_AT, 0, 0, 0];
        assert_eq!(Header::parse(&words(7, 0), b""), None);
        assert_eq!(Header::parse(&words(0, 17), &[0; 100]), None);
        assert_eq!(Header::parse(&words(0, 5), &[0; 3]), None);
        assert_eq!(Header::parse(&words(Kind::Transfer as u64, 0), &[0; 15]), None);
    }
}
