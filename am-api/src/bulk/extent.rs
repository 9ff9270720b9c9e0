//! How much of a transfer has arrived without a gap. Segments arrive in any order, and lost ones are sent again later. The
//! pieces beyond a gap are recorded, so that a transfer that ends early can report from which byte on parts may be missing.

use am_proto::FlowId;
use am_wire::bulk::NoticeKind;

/// The most recorded pieces beyond gaps, all transfers of a node together. Adjacent segments are one piece, so there are few,
/// but a peer can send any pattern. Beyond this limit, progress is under-reported.
const MAX_PIECES: usize = 1024;

/// A transfer of a flow.
pub(super) type Key = (FlowId, u32);

/// The progress of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The number of bytes that have arrived. Each byte arrives once.
    pub(super) got: u64,
    /// Everything before this byte has arrived.
    pub(super) front: u64,
    /// The number of bytes that will arrive: all of the transfer, unless it is cancelled.
    until: u64,
}

impl Extent {
    pub(super) fn of(total: u64) -> Extent {
        Extent { got: 0, front: 0, until: total }
    }

    /// The notice for the end of the transfer, once all bytes that will arrive have arrived.
    pub(super) fn end(&self, total: u64) -> Option<NoticeKind> {
        let what = if self.until < total { NoticeKind::Cancelled } else { NoticeKind::Done };
        (self.got >= self.until).then_some(what)
    }
}

/// The pieces beyond gaps, of all transfers.
#[derive(Default)]
pub(super) struct Pieces(Vec<Piece>);

struct Piece {
    of: Key,
    from: u64,
    to: u64,
}

impl Pieces {
    /// A transfer begins. Allocate now, so that no segment does.
    pub(super) fn make_room(&mut self) {
        if self.0.capacity() == 0 {
            self.0.reserve_exact(MAX_PIECES);
        }
    }

    /// Bytes of a transfer have arrived. A zero-length segment marks the cancel point.
    pub(super) fn note(&mut self, of: Key, extent: &mut Extent, at: u64, length: u64) {
        if length == 0 {
            extent.until = extent.until.min(at);
            return;
        }
        extent.got += length;
        let to = at + length;
        if at > extent.front {
            return self.note_early(Piece { of, from: at, to });
        }
        extent.front = extent.front.max(to);
        let reaches = |piece: &Piece, front| piece.of == of && piece.from <= front;
        while let Some(next) = self.0.iter().position(|piece| reaches(piece, extent.front)) {
            extent.front = extent.front.max(self.0.swap_remove(next).to);
        }
    }

    fn note_early(&mut self, new: Piece) {
        if let Some(before) = self.0.iter_mut().find(|piece| piece.of == new.of && piece.to == new.from) {
            before.to = new.to;
        } else if self.0.len() < MAX_PIECES {
            self.0.push(new);
        }
    }

    /// Keep only the pieces of transfers for which `is_left` is true.
    pub(super) fn keep(&mut self, is_left: impl Fn(Key) -> bool) {
        self.0.retain(|piece| is_left(piece.of));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};

    /// A flow of a node of its own.
    fn key() -> Key {
        let [left, _] = am_transport::loopback::pair();
        let node = crate::Node::open_on("alpha", Box::new(left.open().unwrap())).unwrap();
        (node.endpoint::<()>("main").unwrap().connect("beta", "main").unwrap().0, 7)
    }

    #[test]
    fn the_front_is_known_in_whatever_order_segments_arrive() {
        let key = key();
        for seed in 0..200 {
            let mut random = SmallRng::seed_from_u64(seed);
            let mut segments: Vec<u64> = (0..300).collect();
            segments.chunks_mut(random.random_range(1..100)).for_each(|some| some.shuffle(&mut random));
            let (mut pieces, mut extent, mut here) = (Pieces::default(), Extent::of(3000), [false; 300]);
            for segment in segments {
                pieces.note(key, &mut extent, segment * 10, 10);
                here[segment as usize] = true;
                let front = here.iter().position(|&here| !here).unwrap_or(here.len()) as u64 * 10;
                assert_eq!(extent.front, front, "seed {seed}, segment {segment}");
            }
            assert_eq!((extent.got, pieces.0.len()), (3000, 0), "seed {seed}");
        }
    }

    #[test]
    fn the_number_of_pieces_is_bounded() {
        let (key, mut pieces, mut extent) = (key(), Pieces::default(), Extent::of(1 << 20));
        (1..10 * MAX_PIECES as u64).for_each(|at| pieces.note(key, &mut extent, 2 * at, 1));
        assert_eq!((extent.front, pieces.0.len()), (0, MAX_PIECES));
        pieces.note(key, &mut extent, 0, 2);
        assert_eq!(extent.front, 3, "progress is under-reported, and never over-reported");
        pieces.keep(|of| of != key);
        assert!(pieces.0.is_empty());
    }
}
