//! What goes wrong, how often.

/// The fault model: a probability for each fault, for each frame that is sent.
/// A probability of 0 or less is never, of 1 or more always.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// What happens to the nth frame depends on the seed, on n and on the
    /// other fields here, and on nothing else.
    pub seed: u64,
    /// The frame is lost.
    pub drop: f64,
    /// The frame arrives, and a copy of it does.
    pub duplicate: f64,
    /// Up to [`reorder_by`](Self::reorder_by) later frames overtake it.
    pub reorder: f64,
    /// One to three of its bits flip: see [`check`](Self::check).
    pub corrupt: f64,
    /// It waits for up to [`delay_by`](Self::delay_by) turns.
    pub delay: f64,
    /// The most frames that overtake a reordered one. It waits no longer than
    /// `delay_by` turns even if fewer are sent.
    pub reorder_by: u32,
    /// The most turns (calls of `flush`) that a frame waits. Not in time: a test
    /// that turns equally often sees the same, however fast its machine is.
    pub delay_by: u32,
    /// Whether the link has a check sequence, as every Ethernet has: then a
    /// damaged frame is lost, and counted. Without it, it arrives damaged.
    pub check: bool,
    /// Frames that wait at the same time, at most. When so many do, the next
    /// one is spared.
    pub waiting: usize,
}

impl Faults {
    /// Nothing goes wrong.
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
