//! Assembles a received frame from its pieces.

use am_ring::{Frame, Pool};
use am_wire::Buffer;

/// The state of the frame that is being received.
#[derive(Debug, Default)]
pub(crate) enum Gather {
    /// The next piece is a frame's first.
    #[default]
    Nothing,
    /// A frame, and how many of its bytes have arrived.
    Begun(Frame, usize),
    /// The frame is lost: its other pieces are discarded.
    Discarding,
}

/// The result of adding a piece.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// More pieces follow.
    Part,
    /// It was the last piece. This is the frame.
    Whole(Frame),
    /// It was the last piece of a frame that was too long, or for which the pool had no frame.
    Lost,
}

impl Gather {
    /// Whether the next piece belongs to a frame that has begun, and so takes none from the pool.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self, Gather::Nothing)
    }

    /// Add a piece. `more`: whether others follow. `None` for a piece that is invalid.
    #[inline]
    pub(crate) fn add(&mut self, pool: &Pool, piece: Option<&[u8]>, more: bool) -> Gathered {
        let begun = match std::mem::take(self) {
            Gather::Nothing => pool.take().map(|frame| (frame, 0)),
            Gather::Begun(frame, length) => Some((frame, length)),
            Gather::Discarding => None,
        };
        let grown = begun.zip(piece).and_then(|((mut frame, length), piece)| {
            let end = length + piece.len();
            frame.space()?.get_mut(length..end)?.copy_from_slice(piece);
            Some((frame, end))
        });
        match (grown, more) {
            (Some((frame, length)), true) => *self = Gather::Begun(frame, length),
            (Some((mut frame, length)), false) => {
                frame.set_len(length);
                return Gathered::Whole(frame);
            }
            (None, true) => *self = Gather::Discarding,
            (None, false) => return Gathered::Lost,
        }
        Gathered::Part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_ring::Layout;

    fn pool() -> Pool {
        Pool::heap(Layout { frames: 1, stride: 128, headroom: 8 }).unwrap()
    }

    fn whole(gathered: Gathered) -> Vec<u8> {
        match gathered {
            Gathered::Whole(frame) => frame.bytes().to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pieces_become_a_frame() {
        let (pool, mut gather) = (pool(), Gather::default());
        assert_eq!(whole(gather.add(&pool, Some(b"short"), false)), b"short");
        assert!(matches!(gather.add(&pool, Some(b"one "), true), Gathered::Part));
        assert!(matches!(gather.add(&pool, Some(b"after "), true), Gathered::Part));
        assert!(gather.has_begun());
        assert_eq!(whole(gather.add(&pool, Some(b"the other"), false)), b"one after the other");
        assert_eq!(pool.available(), 1);
    }

    /// A frame that is too long, finds no room, or has an invalid piece: nothing of it is seen, and the next one is
    /// whole.
    #[test]
    fn what_cannot_be_a_frame_is_lost_as_a_whole() {
        let (pool, mut gather) = (pool(), Gather::default());
        let long = [7; 100];
        for pieces in [[Some(&long[..]), Some(&long[..]), Some(&long[..])], [Some(&long[..]), None, Some(&long[..1])]] {
            assert!(matches!(gather.add(&pool, pieces[0], true), Gathered::Part));
            assert!(matches!(gather.add(&pool, pieces[1], true), Gathered::Part));
            assert!(matches!(gather.add(&pool, pieces[2], false), Gathered::Lost));
            assert_eq!(pool.available(), 1, "its frame went home");
        }
        let held = pool.take();
        assert!(matches!(gather.add(&pool, Some(b"none is left"), false), Gathered::Lost));
        drop(held);
        assert_eq!(whole(gather.add(&pool, Some(b"well"), false)), b"well");
    }
}
