//! Where one side of a lane goes on.

use super::LaneLayout;
use super::shape::LINE;

/// A position in a lane, and a run of lines from there on which need no other look than at their words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// Where the word of the next record is. Always within the lane.
    at: usize,
    /// The lap of this line, as it stands in words.
    lap: u32,
    /// The lines of the run that are left. They end where the lap ends, or before.
    left: u32,
    /// The position behind the run.
    end: u32,
}

impl Cursor {
    /// At this position, with a run of at most `run` lines.
    pub(super) fn new(shape: &LaneLayout, position: u32, run: u32) -> Cursor {
        let left = run.min(shape.lines_left(position));
        Cursor { at: shape.word(position), lap: shape.lap(position), left, end: position.wrapping_add(left) }
    }

    /// Lines ever passed in this session. They wrap.
    #[inline(always)]
    pub(super) fn position(&self) -> u32 {
        self.end.wrapping_sub(self.left)
    }

    #[inline(always)]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    #[inline(always)]
    pub(super) fn lap(&self) -> u32 {
        self.lap
    }

    /// Whether the next line belongs to the run.
    #[inline(always)]
    pub(super) fn has_line(&self) -> bool {
        self.left > 0
    }

    /// Pass a line of the run. Returns `false` behind the last one: then make another cursor.
    #[inline(always)]
    pub(super) fn pass_line(&mut self, shape: &LaneLayout) -> bool {
        self.left -= 1;
        if self.left == 0 {
            *self = Cursor::new(shape, self.end, 0);
            return false;
        }
        self.at += LINE;
        true
    }
}
