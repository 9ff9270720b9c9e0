//! How much of a transfer is here without a gap. Segments arrive in any order, and what is lost comes again later: what
//! is here beyond a gap is noted, so that a transfer that ends early can say from where on parts may be missing.

use am_proto::FlowId;
use am_wire::bulk::NoticeKind;

/// The most pieces beyond gaps that are noted, of all transfers of a node: neighbours are one piece, so that there are few,
/// but a peer can send what it likes. Of more of them less than what is here is told.
const MAX_PIECES: usize = 1024;

/// A transfer of a flow.
pub(super) type Key = (FlowId, u32);

/// What is here of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Bytes, each of which comes once.
    pub(super) got: u64,
    /// Everything before this byte is here.
    pub(super) front: u64,
    /// The number of bytes that will come: all of it, unless it is cancelled.
    until: u64,
}

impl Extent {
    pub(super) fn of(total: u64) -> Extent {
        Extent { got: 0, front: 0, until: total }
    }

    /// Once everything that comes is here: whether that is all of it.
    pub(super) fn end(&self, total: u64) -> Option<NoticeKind> {
        let what = if self.until < total { NoticeKind::Cancelled } else { NoticeKind::Done };
        (self.got >= self.until).then_some(what)
    }
}

/// What is here beyond gaps, of all transfers.
#[derive(Default)]
pub(super) struct Pieces(Vec<Piece>);

struct Piece {
    of: Key,
    from: u64,
    to: u64,
}

impl Pieces {
    /// A transfer begins: no segment of it allocates.
    pub(super) fn make_room(&mut self) {
        if self.0.capacity() == 0 {
            self.0.reserve_exact(MAX_PIECES);
        }
    }

    /// Bytes of a transfer have come. A zero-length segment marks the point from which on no more comes.
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

    /// Only those transfers for which this holds are left.
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
    fn what_is_here_without_a_gap_is_known_in_whatever_order_it_comes() {
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
    fn any_number_of_pieces_takes_so_much_memory() {
        let (key, mut pieces, mut extent) = (key(), Pieces::default(), Extent::of(1 << 20));
        (1..10 * MAX_PIECES as u64).for_each(|at| pieces.note(key, &mut extent, 2 * at, 1));
        assert_eq!((extent.front, pieces.0.len()), (0, MAX_PIECES));
        pieces.note(key, &mut extent, 0, 2);
        assert_eq!(extent.front, 3, "less than what is here is told, and never more");
        pieces.keep(|of| of != key);
        assert!(pieces.0.is_empty());
    }
}
