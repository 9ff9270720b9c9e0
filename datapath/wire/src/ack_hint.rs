//! A hint in an acknowledgement. The sequence-number field of an acknowledgement has no other use, so its low 16
//! bits carry the hint. Nodes without hints send 0, and ignore them.
//!
//! ```text
//!  bits 15…14    bit 13    bits 12…0
//!  1 repeated    class     low bits of the message's number
//!  2 lost        class     low bits of the count of lost messages
//!  3 late        class     low bits of the count of lost messages
//! ```

use crate::{Class, Seq};

/// A hint in an acknowledgement.
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
        match self {
            AckHint::None => 0,
            AckHint::Repeated(class, low) => 1 << 14 | (class.index() as u32) << 13 | low.0 as u32,
            AckHint::Lost(class, low) => 2 << 14 | (class.index() as u32) << 13 | low.0 as u32,
            AckHint::Late(class, low) => 3 << 14 | (class.index() as u32) << 13 | low.0 as u32,
        }
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
