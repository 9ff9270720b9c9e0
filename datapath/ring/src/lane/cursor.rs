//! Where one side of a lane goes on.

use super::LaneLayout;
use super::shape::{LINE, ONE_LINE, lap_of, word_of};

/// A position in a lane, and a run of lines from there on which need no other look than at their words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// Where the word of the next record is. Within the lane, unless the run has ended.
    at: usize,
    /// The word of a frame of one line here, the most frequent one.
    line_word: u32,
    /// The lines of the run that are left. They end where the lap ends, or before.
    left: u32,
    /// The position behind the run.
    end: u32,
}

impl Cursor {
    /// At this position, with a run of at most `run` lines.
    pub(super) fn new(shape: &LaneLayout, position: u32, run: u32) -> Cursor {
        let left = run.min(shape.lines_left(position));
        let line_word = word_of(shape.lap(position), ONE_LINE as u32);
        Cursor { at: shape.word(position), line_word, left, end: position.wrapping_add(left) }
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

    /// The lap of this line, as it stands in words.
    #[inline(always)]
    pub(super) fn lap(&self) -> u32 {
        lap_of(self.line_word)
    }

    #[inline(always)]
    pub(super) fn line_word(&self) -> u32 {
        self.line_word
    }

    /// Whether the next line belongs to the run.
    #[inline(always)]
    pub(super) fn has_line(&self) -> bool {
        self.left > 0
    }

    /// Whether the run does not end with the next line.
    #[inline(always)]
    pub(super) fn has_lines(&self) -> bool {
        self.left > 1
    }

    /// Pass a line of the run. Behind the last one, make another cursor.
    #[inline(always)]
    pub(super) fn pass_line(&mut self) {
        self.at += LINE;
        self.left -= 1;
    }
}
