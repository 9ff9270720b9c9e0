//! The faults of one frame, drawn from the seed.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Faults;

/// How long a frame waits before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendDelay {
    No,
    /// Until this many later frames have been sent.
    Frames(u32),
    /// For this many turns.
    Turns(u32),
}

/// All faults of one frame.
#[derive(Clone, Debug)]
pub(super) struct FrameFaults {
    pub(super) drop: bool,
    pub(super) corrupt: bool,
    pub(super) duplicate: bool,
    pub(super) wait: SendDelay,
    /// The source of the bits that flip. It continues after the draws above.
    rng: SmallRng,
}

impl FrameFaults {
    /// The faults of frame `number`.
    pub(super) fn draw(faults: &Faults, number: u64) -> FrameFaults {
        // The golden ratio in 64 bits keeps the streams of neighbouring seeds apart.
        let mut rng = SmallRng::seed_from_u64(faults.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Every fault is drawn, whatever its probability, so one fault's probability does not change where others strike.
        let mut strikes = |probability: f64| rng.random::<f64>() < probability;
        let (drop, corrupt, duplicate) = (strikes(faults.drop), strikes(faults.corrupt), strikes(faults.duplicate));
        let (reorder, delay) = (strikes(faults.reorder), strikes(faults.delay));
        let frames = rng.random_range(1..=faults.reorder_by.max(1));
        let turns = rng.random_range(1..=faults.delay_by.max(1));
        let wait = match (reorder, delay) {
            (true, _) => SendDelay::Frames(frames),
            (false, true) => SendDelay::Turns(turns),
            (false, false) => SendDelay::No,
        };
        FrameFaults { drop, corrupt, duplicate, wait, rng }
    }

    /// Flip one to three bits, all in one byte, so that none flips back.
    pub(super) fn damage(&self, bytes: &mut [u8]) {
        let mut rng = self.rng.clone();
        if bytes.is_empty() {
            return;
        }
        let at = rng.random_range(0..bytes.len());
        let pattern: u8 = [0b1, 0b101, 0b1011][rng.random_range(0..3)];
        bytes[at] ^= pattern.rotate_left(rng.random_range(0..8));
    }
}
