//! Random numbers of the kernel: for secrets, which programs must not guess.

use std::fs::File;
use std::io::{self, Read};

/// A source of random numbers.
#[derive(Debug)]
pub(crate) struct Random(File);

impl Random {
    pub(crate) fn new() -> io::Result<Random> {
        let mut random = Random(File::open("/dev/urandom")?);
        random.0.read_exact(&mut [0; 8])?;
        Ok(random)
    }

    /// Random bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        // The device never ends and never fails once it has been read.
        self.0.read_exact(&mut bytes).unwrap_or_else(|why| panic!("/dev/urandom: {why}"));
        bytes
    }

    /// A random number.
    pub(crate) fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}
