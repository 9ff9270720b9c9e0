//! Whether the replicas of an object are still alike.

use std::collections::VecDeque;
use std::fmt;

/// An object that differs.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) object: String,
    pub(crate) of: &'static str,
    pub(crate) writes: u64,
    pub(crate) from: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { object, of, writes, from } = self;
        write!(
            f,
            "the object `{object}` is not the same here as at {from} after {writes} writes: a write of `{of}` depends on more than the object and its arguments, or the two \
             programs differ. Run its operations with `am_objects::Twice`"
        )
    }
}

/// Writes between two digests of an object.
const WRITES: u64 = 1024;
/// A digest takes as long as writing all of the value: twice as many writes pass for each doubling of its length beyond this.
const LENGTH: usize = 64 << 10;
/// The last digests of an object. That of another process arrives before there are more.
const KEPT: usize = 4;

/// Digests of an object's value, each after a number of writes.
#[derive(Debug)]
pub(crate) struct Digests {
    interval: u64,
    made: VecDeque<(u64, u64)>,
}

impl Digests {
    /// For a value of this length.
    pub(crate) fn of(length: usize) -> Digests {
        Digests { interval: interval(length), made: VecDeque::new() }
    }

    /// Whether one is made after this number of writes. A process that joined makes those that the others make, whatever the length was when each last
    /// looked: the longer interval is a multiple of the shorter one.
    pub(crate) fn are_due(&self, writes: u64) -> bool {
        writes.is_multiple_of(self.interval)
    }

    /// The value, after this number of writes. Returns its digest.
    pub(crate) fn add(&mut self, writes: u64, value: &[u8]) -> u64 {
        self.interval = interval(value.len());
        let digest = digest(value);
        self.made.push_back((writes, digest));
        if self.made.len() > KEPT {
            self.made.pop_front();
        }
        digest
    }

    /// The last one, and the number of writes before it.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        self.made.back().copied()
    }

    /// Whether another process had another value after this number of writes. What is not known here does not differ.
    pub(crate) fn differ(&self, writes: u64, digest: u64) -> bool {
        self.made.iter().any(|(at, own)| *at == writes && *own != digest)
    }
}

fn interval(length: usize) -> u64 {
    WRITES * length.div_ceil(LENGTH).max(1).next_power_of_two() as u64
}

/// FNV-1a, in words of eight bytes.
fn digest(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    words.fold(0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64, |sum: u64, word| {
        let mixed = (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        mixed ^ mixed >> 32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_made_at_the_same_writes_everywhere() {
        let mut digests = Digests::of(0);
        assert!(!digests.are_due(1023) && digests.are_due(1024));
        digests.add(1024, &[0; 200 << 10]);
        assert!(!digests.are_due(2048) && digests.are_due(4096) && Digests::of(0).are_due(4096));
        digests.add(4096, &[0; 10]);
        assert!(digests.are_due(5120));
    }

    #[test]
    fn only_what_is_known_differs() {
        let mut digests = Digests::of(0);
        let one = digests.add(1024, b"one");
        let other = digests.add(2048, b"other");
        assert!(
            one != other && !digests.differ(1024, one) && digests.differ(1024, other) && !digests.differ(3072, one)
        );
        assert_ne!(digest(&[0; 8]), digest(&[0; 9]));
    }
}
