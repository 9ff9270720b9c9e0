//! The payload of a message that its handler has to leave behind.

use std::ops::Deref;

use am_api::{Message, OwnedMessage};

/// So many bytes are copied: that is cheaper than keeping their frame.
pub(crate) const SHORT: usize = 64;

/// A payload after its handler has returned: a copy of a short one; the frame, or the memory, of a longer one. The sender has one credit
/// less while a frame is kept.
#[derive(Debug, Default)]
pub(crate) enum Bytes {
    #[default]
    None,
    Short(u8, [u8; SHORT]),
    Copied(Vec<u8>),
    Kept(OwnedMessage),
}

impl Bytes {
    #[inline]
    pub(crate) fn keep(message: &Message<'_, ()>) -> Bytes {
        match message.payload() {
            [] => Bytes::None,
            payload if payload.len() <= SHORT => {
                let mut short = [0; SHORT];
                short[..payload.len()].copy_from_slice(payload);
                Bytes::Short(payload.len() as u8, short)
            }
            _ => Bytes::keep_frame(message),
        }
    }

    #[inline(never)]
    fn keep_frame(message: &Message<'_, ()>) -> Bytes {
        Bytes::Kept(message.keep())
    }

    /// As [`keep`](Bytes::keep), for longer: a payload of one frame is copied, so that its sender has the credit again. `in_frame` is how long
    /// such a payload may be.
    pub(crate) fn keep_long(message: &Message<'_, ()>, in_frame: usize) -> Bytes {
        match message.payload() {
            payload if payload.len() > SHORT && payload.len() <= in_frame => Bytes::Copied(payload.to_vec()),
            _ => Bytes::keep(message),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::None => &[],
            Bytes::Short(length, bytes) => &bytes[..usize::from(*length)],
            Bytes::Copied(bytes) => bytes,
            Bytes::Kept(message) => message,
        }
    }
}
