//! Sequence numbers that wrap.

use core::fmt;

/// A sequence number: 32 bits that wrap. Two numbers can be compared if they are less than 2^31 apart, as in a window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `n` further on.
    #[inline]
    #[must_use]
    pub const fn plus(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }

    /// How far `self` is ahead of `other`; negative if it is behind.
    #[inline]
    pub const fn since(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether `self` comes before `other`.
    #[inline]
    pub const fn before(self, other: Seq) -> bool {
        self.since(other) < 0
    }

    /// The later of the two.
    #[inline]
    #[must_use]
    pub const fn max(self, other: Seq) -> Seq {
        if self.before(other) { other } else { self }
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The full number of which only the low `bits` bits were carried: the one nearest to `near`. Correct if it is less
/// than 2^(bits-1) away.
#[inline]
pub const fn expand(carried: u32, bits: u32, near: Seq) -> Seq {
    let up = 32 - bits;
    let distance = (carried.wrapping_sub(near.0) << up) as i32 >> up;
    Seq(near.0.wrapping_add(distance as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = Seq(u32::MAX);
        assert!(last.before(last.plus(1)));
        assert_eq!(last.plus(3).since(last), 3);
        assert_eq!(last.max(last.plus(1)), Seq(0));
    }

    proptest! {
        #[test]
        fn expands_anything_near(near: u32, distance in -32768i32..32768) {
            let seq = Seq(near).plus(distance as u32);
            prop_assert_eq!(expand(seq.0 & 0xffff, 16, Seq(near)), seq);
            prop_assert_eq!(expand(seq.0, 32, Seq(near)), seq);
        }
    }
}
