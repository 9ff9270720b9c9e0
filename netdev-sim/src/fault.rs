//! Random draws: whether a fault strikes. And how a NIC's driver hands over a frame: whole, or in a wrong form.
//!
//! Each wrong form is the behaviour of a driver in Linux. `docs/nics.md` names the drivers.
//! None of these drivers counts an error: to the XDP program and its user, each part is a good frame.

use rand::Rng;
use rand::rngs::SmallRng;

use crate::clock::Nanos;

/// The random numbers of one part of a network. Faults strike until a given time.
#[derive(Clone, Debug)]
pub(crate) struct FaultRng {
    random: SmallRng,
    until: Nanos,
}

impl FaultRng {
    pub(crate) fn new(random: SmallRng, until: Nanos) -> FaultRng {
        FaultRng { random, until }
    }

    /// Whether faults strike at this time.
    pub(crate) fn is_active(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// Whether a fault with this probability strikes now. A probability of 0 draws no number, so a run with few faults
    /// is fast.
    pub(crate) fn strikes(&mut self, now: Nanos, probability: f64) -> bool {
        probability > 0.0 && self.is_active(now) && self.random.random::<f64>() < probability
    }

    /// A number from 0 to `most`.
    pub(crate) fn draw_up_to(&mut self, most: u64) -> u64 {
        if most == 0 { 0 } else { self.random.random_range(0..=most) }
    }
}

/// How a driver hands over some of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Unchanged.
    Honest,
    /// In pieces of this many bytes, each as a frame: igb and igc, which round a buffer down to KiB, and drivers that
    /// use what the chunk leaves.
    Cuts(usize),
    /// Only the first piece of this many bytes: octeontx2.
    KeepsFirst(usize),
    /// Only the last piece of this many bytes, with the length of the whole frame. Old memory fills the rest: stmmac.
    KeepsLast(usize),
    /// Behind a time stamp of this many bytes: igb, octeontx2.
    Stamps(usize),
    /// With this many bytes added at the end: the check sequence, or padding to whole words.
    Pads(usize),
    /// Without the four bytes behind the addresses, which the driver takes for an 802.1Q tag: Intel's.
    Untags,
    /// Without the second piece of this many bytes: one buffer of a chain is lost.
    Skips(usize),
}

/// The buffer sizes that drivers use in chunks of 2048 and 4096 bytes.
const BUFFER_SIZES: [usize; 6] = [128, 1008, 1024, 1536, 1792, 2048];

impl Driver {
    /// A random wrong form.
    pub(crate) fn draw(random: &mut SmallRng) -> Driver {
        let room = BUFFER_SIZES[random.random_range(0..BUFFER_SIZES.len())];
        match random.random_range(0..8) {
            0 | 1 => Driver::Cuts(room),
            2 => Driver::KeepsFirst(room),
            3 => Driver::KeepsLast(room),
            4 => Driver::Stamps([8, 16][random.random_range(0..2)]),
            5 => Driver::Pads([1, 2, 4, 16][random.random_range(0..4)]),
            6 => Driver::Untags,
            _ => Driver::Skips(room),
        }
    }

    /// The frames that the card gets for one that has arrived.
    pub(crate) fn hand_over(self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let without =
            |at: usize, count: usize| [&bytes[..at.min(bytes.len())], &bytes[(at + count).min(bytes.len())..]].concat();
        match self {
            Driver::Honest => vec![bytes.to_vec()],
            Driver::Cuts(room) => bytes.chunks(room).map(<[u8]>::to_vec).collect(),
            Driver::KeepsFirst(room) => vec![bytes[..room.min(bytes.len())].to_vec()],
            Driver::KeepsLast(room) => {
                let mut last = bytes.chunks(room).last().unwrap_or_default().to_vec();
                last.resize(bytes.len(), 0x5a);
                vec![last]
            }
            Driver::Stamps(stamp) => vec![[&vec![0x5a; stamp], bytes].concat()],
            Driver::Pads(more) => vec![[bytes, &vec![0; more]].concat()],
            Driver::Untags => vec![without(12, 4)],
            Driver::Skips(room) => vec![without(room, room)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn faults_end() {
        let mut dice = FaultRng::new(SmallRng::seed_from_u64(1), 100);
        assert!(dice.strikes(99, 1.0) && !dice.strikes(99, 0.0) && !dice.strikes(100, 1.0));
    }

    #[test]
    fn each_wrong_form_of_a_frame() {
        let frame: Vec<u8> = (0..150).collect();
        let lengths = |driver: Driver| driver.hand_over(&frame).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(Driver::Honest), [150]);
        assert_eq!(lengths(Driver::Cuts(64)), [64, 64, 22]);
        assert_eq!(lengths(Driver::KeepsFirst(64)), [64]);
        assert_eq!(lengths(Driver::KeepsLast(64)), [150]);
        assert_eq!(lengths(Driver::Stamps(16)), [166]);
        assert_eq!(lengths(Driver::Pads(4)), [154]);
        assert_eq!(lengths(Driver::Untags), [146]);
        assert_eq!(lengths(Driver::Skips(64)), [86]);
        assert_eq!(Driver::Cuts(64).hand_over(&frame).concat(), frame);
        assert_eq!(Driver::KeepsLast(64).hand_over(&frame)[0][..22], frame[128..]);
    }
}
