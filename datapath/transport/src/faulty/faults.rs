//! The fault model.

/// The probability of each fault, for each frame that is sent. 0 or less means never, 1 or more means always.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The faults of the nth frame depend only on the seed, on n and on the other fields here.
    pub seed: u64,
    /// The frame is lost.
    pub drop: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// Up to [`reorder_by`](Self::reorder_by) later frames overtake it.
    pub reorder: f64,
    /// One to three of its bits flip. See [`check`](Self::check).
    pub corrupt: f64,
    /// It waits for up to [`delay_by`](Self::delay_by) turns.
    pub delay: f64,
    /// The most frames that overtake a reordered one. It waits no longer than
    /// `delay_by` turns even if fewer are sent.
    pub reorder_by: u32,
    /// The most turns (calls of `flush`) that a frame waits. Turns, and not time, so that a test sees the same on every
    /// machine.
    pub delay_by: u32,
    /// Whether the link has a check sequence, as Ethernet has. With it a damaged frame is dropped and counted; without it
    /// the frame arrives damaged.
    pub check: bool,
    /// The most frames that wait at the same time. While that many wait, no further frame is delayed.
    pub waiting: usize,
}

impl Faults {
    /// No faults.
    pub const NONE: Faults = Faults {
        seed: 0,
        drop: 0.0,
        duplicate: 0.0,
        reorder: 0.0,
        corrupt: 0.0,
        delay: 0.0,
        reorder_by: 8,
        delay_by: 4,
        check: true,
        waiting: 64,
    };

    /// Loss, duplication and reordering, each with this probability.
    pub const fn lossy(seed: u64, probability: f64) -> Faults {
        Faults { seed, drop: probability, duplicate: probability, reorder: probability, ..Faults::NONE }
    }

    /// Whether every frame arrives, once.
    pub(super) fn are_reliable(&self) -> bool {
        self.drop <= 0.0 && self.duplicate <= 0.0 && self.corrupt <= 0.0
    }

    /// Whether frames arrive in order.
    pub(super) fn are_ordered(&self) -> bool {
        self.reorder <= 0.0 && self.delay <= 0.0
    }
}

impl Default for Faults {
    fn default() -> Self {
        Faults::NONE
    }
}
