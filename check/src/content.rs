//! What messages carry: bytes that depend on the message's number, its length and their place, so that a message
//! that was cut, padded, shifted or mixed with another differs from every message that was sent.
//!
//! A [`Shape`] is a message of any length. [`seal`] and [`payload`] are for messages by the million.

use std::sync::LazyLock;

use am_api::Message;

/// The most words of a message.
const WORDS: usize = 4;
const WORD: usize = 8;

/// A message: how many words, how many bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Messages without words have none to say it in: 0.
    pub(crate) number: u64,
    pub(crate) words: usize,
    pub(crate) length: usize,
}

impl Shape {
    /// Without words, all of it payload.
    pub(crate) fn bare(length: usize) -> Shape {
        Shape { number: 0, words: 0, length }
    }

    /// One to four words, by its number, and the rest of `body` bytes as payload; `None` where not even a word fits.
    pub(crate) fn numbered(number: u64, body: usize) -> Option<Shape> {
        let words = (1 + number as usize % WORDS).min(body / WORD);
        (words > 0).then(|| Shape { number, words, length: body - words * WORD })
    }

    /// What it claims to be.
    pub(crate) fn claimed<S>(message: &Message<'_, S>) -> Shape {
        Shape { number: message.word(0), words: message.words().len(), length: message.payload().len() }
    }

    /// Its words: number and length, then what both make.
    pub(crate) fn words(&self) -> Vec<u64> {
        let word = |at| match at {
            0 => self.number,
            1 => self.length as u64,
            _ => mix(self.number ^ (self.length as u64) << 32 ^ at as u64),
        };
        (0..self.words).map(word).collect()
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        fill(self.number, self.length)
    }

    /// What of this message is not as its sender made it.
    pub(crate) fn flaw<S>(message: &Message<'_, S>) -> Option<String> {
        let shape = Shape::claimed(message);
        let (length, number) = (shape.length, shape.number);
        if message.words() != shape.words() {
            return Some(format!("words {:?} with {length} bytes of payload", message.words()));
        }
        let at = difference(number, message.payload())?;
        Some(format!("message {number} of {length} bytes is wrong from byte {at} on"))
    }
}

/// The bytes of a payload, or of a bulk transfer.
pub(crate) fn fill(number: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| byte(number, length, at)).collect()
}

/// The first byte that is not as [`fill`] makes it.
pub(crate) fn difference(number: u64, bytes: &[u8]) -> Option<usize> {
    bytes.iter().enumerate().position(|(at, &found)| found != byte(number, bytes.len(), at))
}

fn byte(number: u64, length: usize, at: usize) -> u8 {
    (mix(number ^ (length as u64) << 40 ^ at as u64) >> 56) as u8
}

/// Each bit of the product's upper half depends on all bits below it.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (value ^ value >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// The third word of a message; the first two are its connection and its number.
pub(crate) fn seal(connection: u64, number: u64) -> u64 {
    mix(connection ^ number.rotate_left(40))
}

/// The payload of a message: mostly short, now and then long.
pub(crate) fn payload(seal: u64) -> &'static [u8] {
    const STARTS: usize = 256;
    const LONGEST: usize = 1200;
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| fill(0, STARTS + LONGEST));
    let most = if seal.is_multiple_of(16) { LONGEST } else { 64 };
    let (start, length) = (seal as usize >> 40 & (STARTS - 1), (seal >> 8) as usize % most);
    &BYTES[start..start + length]
}

/// Whether a message with a seal is as it was sent.
pub(crate) fn is_whole(words: &[u64], bytes: &[u8]) -> bool {
    words.len() > 2 && seal(words[0], words[1]) == words[2] && bytes == payload(words[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_changed_is_not_whole() {
        for number in 0..1000 {
            let words = [7, number, seal(7, number)];
            let mut bytes = payload(words[2]).to_vec();
            assert!(is_whole(&words, &bytes) && !is_whole(&[8, number, words[2]], &bytes), "{number}");
            bytes.push(0);
            assert!(!is_whole(&words, &bytes), "{number}: longer");
            if bytes.len() > 1 {
                bytes.pop();
                bytes[0] ^= 1;
                assert!(!is_whole(&words, &bytes), "{number}: another byte");
            }
        }
    }
}
