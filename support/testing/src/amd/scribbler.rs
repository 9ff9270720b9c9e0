//! A program that writes anything into the memory that it shares with the daemon.

use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::by_hand::{Asking, ByHand, LANES, RECORDS};

/// Its port, and how often it attached: it is detached after too many frames that are none.
pub struct Scribbler {
    socket: PathBuf,
    port: ByHand,
    random: SmallRng,
    scribbles: u64,
    pub attached: u64,
}

impl Scribbler {
    pub fn attach(socket: &Path, seed: u64) -> Scribbler {
        let (port, random) = (Asking::new(socket).finish(), SmallRng::seed_from_u64(seed));
        Scribbler { socket: socket.to_owned(), port, random, scribbles: 0, attached: 1 }
    }

    /// The first records have any lengths.
    fn open_lanes(&mut self) {
        let mut place = LANES + RECORDS;
        for _ in 0..4 {
            let length = self.random.random_range(0..2000_u32);
            // A word of the first lap.
            self.port.set_word(place, length << 1);
            place += u64::from(length + 4).next_multiple_of(64);
        }
        self.port.open_lanes();
    }

    /// The places of a region where most depends on each bit: the sleepers' words and the heads of the two lanes.
    fn likely_place(&mut self) -> u64 {
        let (length, lane) = (self.port.length, self.port.lane);
        match self.random.random_range(0..4) {
            0 => self.random.random_range(0..LANES),
            1 => LANES + self.random.random_range(0..512),
            2 => LANES + lane + self.random.random_range(0..512),
            // Words stand at the start of cache lines.
            _ => LANES + RECORDS + self.random.random_range(0..length - LANES - RECORDS - 64) / 64 * 64,
        }
    }

    /// Write once: random bytes, numbers that are nearly right and numbers that run wild, anywhere in the memory.
    pub fn scribble(&mut self) {
        if self.scribbles.is_multiple_of(16) {
            self.open_lanes();
        }
        let place = self.likely_place().min(self.port.length - 64);
        let (mut bytes, random) = ([0; 64], &mut self.random);
        let count = random.random_range(1..=bytes.len());
        match random.random_range(0..4) {
            0 => random.fill_bytes(&mut bytes),
            1 => bytes[..4].copy_from_slice(&(random.random_range(0..2000_u32) << 1).to_le_bytes()),
            2 => bytes[..4].copy_from_slice(&(u32::MAX - random.random_range(0..64)).to_le_bytes()),
            _ => bytes[..4].copy_from_slice(&(random.random_range(0..2000_u32) << 1 | 1).to_le_bytes()),
        }
        self.port.write(place, &bytes[..count]);
        self.scribbles += 1;
        // Wakes the daemon; learns so whether it was detached.
        if self.scribbles.is_multiple_of(64) && !self.port.wake() {
            self.port = Asking::new(&self.socket).finish();
            self.attached += 1;
        }
    }
}
