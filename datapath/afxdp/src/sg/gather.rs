//! A frame of which piece after piece comes in.

use am_ring::{Frame, Pool};
use am_wire::Buffer;

/// The frame that is coming in.
#[derive(Debug, Default)]
pub(crate) enum Gather {
    /// The next piece is a frame's first.
    #[default]
    Nothing,
    /// So many bytes of it are there.
    Begun(Frame, usize),
    /// It will not become one: its other pieces are thrown away.
    Spoilt,
}

/// What came of a piece.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// More pieces follow.
    Part,
    /// It was the last.
    Whole(Frame),
    /// It was the last of a frame that was too long, or that the pool had no frame for.
    Lost,
}

impl Gather {
    /// Whether the next piece takes no frame from the pool.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        !matches!(self, Gather::Nothing)
    }

    /// The next piece; `more` follow, or not.
    #[inline]
    pub(crate) fn add(&mut self, pool: &Pool, piece: Option<&[u8]>, more: bool) -> Gathered {
        let begun = match std::mem::take(self) {
            Gather::Nothing => pool.take().map(|frame| (frame, 0)),
            Gather::Begun(frame, length) => Some((frame, length)),
            Gather::Spoilt => None,
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
            (None, true) => *self = Gather::Spoilt,
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
        assert!(gather.is_begun());
        assert_eq!(whole(gather.add(&pool, Some(b"the other"), false)), b"one after the other");
        assert_eq!(pool.available(), 1);
    }

    /// Too long, no frame, a piece that is none: nothing of it is seen, and the next is well.
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
