//! SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash that is fast for a few bytes. The XDP program computes it too, over the
//! header of a group frame.

/// A key, as two little-endian numbers. All zero where there is none.
pub type HashKey = [u64; 2];

/// The hash of these bytes.
pub(crate) fn hash(key: HashKey, bytes: &[u8]) -> u64 {
    let mut state = State::new(key);
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| state.add(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    state.finish(u64::from_le_bytes(last))
}

struct State([u64; 4]);

impl State {
    const fn new([k0, k1]: HashKey) -> State {
        State([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline(always)]
    const fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }

    #[inline(always)]
    const fn add(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    const fn finish(mut self, last: u64) -> u64 {
        self.add(last);
        self.0[2] ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.round();
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// The standard library has another implementation of the same hash.
    #[test]
    #[expect(deprecated, reason = "it is the reference")]
    fn the_hash_is_that_of_the_standard_library() {
        use core::hash::{Hasher, SipHasher};
        for length in 0..200_u8 {
            let bytes: Vec<u8> = (0..length).map(|n| n.wrapping_mul(37)).collect();
            let key = [u64::from(length) << 40, !u64::from(length)];
            let mut reference = SipHasher::new_with_keys(key[0], key[1]);
            reference.write(&bytes);
            assert_eq!(hash(key, &bytes), reference.finish());
        }
    }
}
