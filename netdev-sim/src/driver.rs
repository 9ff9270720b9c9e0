//! What a NIC's driver makes of a frame that arrives: mostly the frame.
//!
//! Each variant is the behaviour of a driver in Linux, which `docs/nics.md` names with the place in its source.
//! None of them counts an error there: each part is a good frame to the XDP program and to its user.

use rand::Rng;
use rand::rngs::SmallRng;

/// How a driver hands over a frame, now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// As it came.
    Honest,
    /// In pieces of this many bytes, each as a frame: igb and igc, whose room is counted in KiB; others whose room is
    /// what the chunk leaves.
    Cuts(usize),
    /// Its first piece of this many bytes, and nothing else: octeontx2.
    KeepsFirst(usize),
    /// Its last piece of this many bytes, with the length of the whole, and behind it what lay there: stmmac.
    KeepsLast(usize),
    /// With so many bytes of time stamp in front: igb, octeontx2.
    Stamps(usize),
    /// With so many bytes behind it: a check sequence that is counted, or words that are filled up.
    Pads(usize),
    /// Without four bytes behind the addresses, taken for an 802.1Q tag: Intel's.
    Untags,
    /// Without its second piece of this many bytes: a buffer of a chain that was lost.
    Skips(usize),
}

/// Rooms that chunks of 2048 and 4096 bytes leave, as drivers round them.
const ROOMS: [usize; 6] = [128, 1008, 1024, 1536, 1792, 2048];

impl Driver {
    /// One of them.
    pub(crate) fn draw(random: &mut SmallRng) -> Driver {
        let room = ROOMS[random.random_range(0..ROOMS.len())];
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

    /// The frames that the card gets for one that arrived.
    pub(crate) fn hand_over(self, bytes: &[u8]) -> Vec<Vec<u8>> {
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
            Driver::Untags => vec![without(bytes, 12, 4)],
            Driver::Skips(room) => vec![without(bytes, room, room)],
        }
    }
}

fn without(bytes: &[u8], at: usize, count: usize) -> Vec<u8> {
    let (at, end) = (at.min(bytes.len()), (at + count).min(bytes.len()));
    [&bytes[..at], &bytes[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_makes_of_a_frame() {
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
