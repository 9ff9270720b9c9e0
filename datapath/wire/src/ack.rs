//! An acknowledgement in a frame of its own, for when nothing is there to carry it.

use crate::codec::{Field, fields};
use crate::{Class, Reason, Seq};

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

fields! {
    Ack { accepted limit sack }
    Acks { classes }
}

impl Acks {
    /// Bytes on the wire: two numbers of four and a bitmap of eight for each class.
    pub const BYTES: usize = 2 * (4 + 4 + 8);

    /// The body.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        self.put(&mut &mut bytes[..]);
        bytes
    }

    /// From a body.
    ///
    /// # Errors
    /// [`Reason::Body`] where it has another length.
    pub fn parse(mut body: &[u8]) -> Result<Acks, Reason> {
        Acks::take(&mut body).filter(|_| body.is_empty()).ok_or(Reason::Body)
    }
}

/// A hint in an acknowledgement. The sequence-number field of an acknowledgement has no other use, so its low 16
/// bits carry the hint. Nodes without hints send 0, and ignore them.
///
/// ```text
///  bits 15…14    bit 13    bits 12…0
///  1 repeated    class     low bits of the message's number
///  2 lost        class     low bits of the count of lost messages
///  3 late        class     low bits of the count of lost messages
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AckHint {
    /// Nothing.
    #[default]
    None,
    /// This message arrived again: the low bits of its number (RFC 2883 has a block for this).
    Repeated(Class, SeqLowBits),
    /// The network reorders, so a gap does not mean a loss. The sender of this acknowledgement has
    /// counted this many of its own messages as lost since the flow was opened.
    Lost(Class, SeqLowBits),
    /// The same; and the messages that seemed to be lost arrived late.
    Late(Class, SeqLowBits),
}

/// 13 bits of a number, many times the size of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SeqLowBits(u16);

impl SeqLowBits {
    const MASK: u32 = (1 << 13) - 1;
    /// The longest distance between two.
    pub const MAX_DISTANCE: u32 = Self::MASK;

    /// Of that number.
    pub const fn of(number: u32) -> SeqLowBits {
        SeqLowBits((number & Self::MASK) as u16)
    }

    /// The distance behind `earlier`, less than 8192.
    pub const fn since(self, earlier: SeqLowBits) -> u32 {
        (self.0 as u32).wrapping_sub(earlier.0 as u32) & Self::MASK
    }
}

impl From<Seq> for SeqLowBits {
    fn from(seq: Seq) -> SeqLowBits {
        SeqLowBits::of(seq.0)
    }
}

impl AckHint {
    /// As it stands in a header.
    pub const fn to_bits(self) -> u32 {
        let (code, class, low) = match self {
            AckHint::None => return 0,
            AckHint::Repeated(class, low) => (1, class, low),
            AckHint::Lost(class, low) => (2, class, low),
            AckHint::Late(class, low) => (3, class, low),
        };
        code << 14 | (class.index() as u32) << 13 | low.0 as u32
    }

    /// From a header. An invalid hint is none.
    pub const fn from_bits(bits: u32) -> AckHint {
        let (class, low) = (if bits >> 13 & 1 == 0 { Class::Request } else { Class::Reply }, SeqLowBits::of(bits));
        match bits >> 14 {
            1 => AckHint::Repeated(class, low),
            2 => AckHint::Lost(class, low),
            3 => AckHint::Late(class, low),
            _ => AckHint::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_say_it() {
        for class in Class::ALL {
            for number in [0, 1, 8191, 8192, u32::MAX] {
                for hint in
                    [AckHint::Repeated, AckHint::Lost, AckHint::Late].map(|of| of(class, SeqLowBits::of(number)))
                {
                    assert_eq!(AckHint::from_bits(hint.to_bits()), hint);
                    assert!(hint.to_bits() < 1 << 16 && hint.to_bits() != 0);
                }
            }
        }
        assert_eq!((AckHint::from_bits(0), AckHint::from_bits(1 << 30)), (AckHint::None, AckHint::None));
    }

    #[test]
    fn distance_wraps() {
        assert_eq!(SeqLowBits::of(8193).since(SeqLowBits::of(8190)), 3);
        assert_eq!(SeqLowBits::of(5).since(SeqLowBits::of(6)), 8191);
    }
}
