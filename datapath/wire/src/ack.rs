//! An acknowledgement of its own frame, for when nothing is there to carry it.

use crate::{Reason, Seq};

/// The state of a receiver for one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ack {
    /// Everything before has been accepted.
    pub accepted: Seq,
    /// Everything before may be sent: `limit` minus what was sent is the credit left.
    pub limit: Seq,
    /// Bit `i`: `accepted + 1 + i` has been accepted as well. (`accepted` itself has not.)
    pub sack: u64,
}

/// The state of a receiver for both classes: the body of a [`Kind::Ack`](crate::Kind) frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Acks {
    /// By class: first requests, then replies.
    pub classes: [Ack; 2],
}

// Two numbers of four bytes and a bitmap of eight for each class.
const _: () = assert!(Acks::BYTES == 2 * (4 + 4 + 8));

impl Acks {
    /// Bytes on the wire.
    pub const BYTES: usize = 32;

    /// The body.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (half, class) in bytes.chunks_exact_mut(16).zip(&self.classes) {
            half[..4].copy_from_slice(&class.accepted.0.to_be_bytes());
            half[4..8].copy_from_slice(&class.limit.0.to_be_bytes());
            half[8..].copy_from_slice(&class.sack.to_be_bytes());
        }
        bytes
    }

    /// From a body.
    ///
    /// # Errors
    /// [`Reason::Body`] where it has another length.
    pub fn parse(body: &[u8]) -> Result<Acks, Reason> {
        let bytes: &[u8; Self::BYTES] = body.try_into().map_err(|_| Reason::Body)?;
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let class = |at: usize| Ack {
            accepted: Seq(number(at)),
            limit: Seq(number(at + 4)),
            sack: (number(at + 8) as u64) << 32 | number(at + 12) as u64,
        };
        Ok(Acks { classes: [class(0), class(16)] })
    }
}
