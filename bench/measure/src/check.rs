//! Checks the content of messages that are all equal.

use std::cell::Cell;

use crate::error::Error;

/// Checks what arrives: the length of each message, and all bytes of one in 16.
#[derive(Debug)]
pub struct Check {
    /// The content of a message.
    pub bytes: Vec<u8>,
    messages: Cell<u32>,
}

/// Of this number of messages, all bytes of one are compared.
const COMPARED: u32 = 16;

impl Check {
    /// Of messages of this size.
    pub fn new(size: usize) -> Check {
        // No short period, so that a shifted part differs.
        let bytes = (0..size).map(|at| (at * 31 + at / 251) as u8).collect();
        Check { bytes, messages: Cell::new(0) }
    }

    /// Whether this is what was sent.
    #[inline]
    pub fn is_sent(&self, message: &[u8]) -> bool {
        let nth = self.messages.get();
        self.messages.set(nth.wrapping_add(1));
        message.len() == self.bytes.len() && (!nth.is_multiple_of(COMPARED) || message == self.bytes)
    }

    /// As [`is_sent`](Check::is_sent).
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, message: &[u8]) -> Result<(), Error> {
        if self.is_sent(message) { Ok(()) } else { Err(changed()) }
    }
}

/// A message is not what it has to be.
pub fn changed() -> Error {
    Error::Changed("a message arrived with wrong content or length, so no figure here is valid".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_length_is_found_at_once_and_wrong_content_within_sixteen() {
        let check = Check::new(300);
        let mut wrong = check.bytes.clone();
        wrong[7] ^= 1;
        let found: Vec<bool> = (0..2 * COMPARED).map(|_| !check.is_sent(&wrong)).collect();
        assert_eq!(found.iter().filter(|found| **found).count(), 2);
        assert!((0..COMPARED).all(|_| !check.is_sent(&wrong[..299])));
        assert!((0..COMPARED).all(|_| check.is_sent(&check.bytes)));
    }
}
