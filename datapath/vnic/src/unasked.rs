//! Frames in a lane for which the receiver gave no credit, by sender.
//!
//! Credit limits messages, but not control frames. So one program could fill the lane of another one with control frames, and those of
//! other programs would find no room. Each sender gets at most an eighth of a lane.

use std::collections::{HashMap, VecDeque};

/// The part of a lane that one sender may have: one line in this number.
pub(crate) const SHARE: u32 = 8;

/// A frame that is in the lane, or that the receiver has just read.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The position behind it.
    end: u32,
    lines: u32,
    sender: u16,
}

/// The frames without credit in one lane.
#[derive(Debug, Default)]
pub(crate) struct Unasked {
    entries: VecDeque<Entry>,
    lines: HashMap<u16, u32>,
}

impl Unasked {
    /// Whether this sender has room for another frame in a lane of `lane_lines` lines. `released` is the position up to which the receiver
    /// has read it.
    pub(crate) fn has_room(&mut self, sender: u16, lane_lines: u32, (written, released): (u32, u32)) -> bool {
        // Positions wrap, and are always near each other.
        let is_before = |one: u32, other: u32| (one.wrapping_sub(other) as i32) < 0;
        // A new session has begun: the lane is empty.
        if self.entries.back().is_some_and(|last| is_before(written, last.end)) {
            self.entries.clear();
            self.lines.clear();
        }
        while let Some(first) = self.entries.front().filter(|first| !is_before(released, first.end)) {
            let Entry { lines, sender, .. } = *first;
            *self.lines.entry(sender).or_insert(lines) -= lines;
            self.entries.pop_front();
        }
        self.lines.get(&sender).is_none_or(|lines| *lines < lane_lines / SHARE)
    }

    /// A frame of this sender was put in, up to this position.
    pub(crate) fn add(&mut self, sender: u16, (before, end): (u32, u32)) {
        let lines = end.wrapping_sub(before);
        self.entries.push_back(Entry { end, lines, sender });
        *self.lines.entry(sender).or_default() += lines;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: u32 = 4096;

    #[test]
    fn a_sender_has_its_share_until_the_receiver_gives_back() {
        let mut unasked = Unasked::default();
        let (start, mut written) = (u32::MAX - 100, u32::MAX - 100);
        while unasked.has_room(1, LINES, (written, start)) {
            unasked.add(1, (written, written.wrapping_add(2)));
            written = written.wrapping_add(2);
        }
        assert_eq!(written.wrapping_sub(start), LINES / SHARE);
        assert!(unasked.has_room(2, LINES, (written, start)), "another sender has its own");
        assert!(!unasked.has_room(1, LINES, (written, start.wrapping_add(1))), "a frame is given back as a whole");
        assert!(unasked.has_room(1, LINES, (written, start.wrapping_add(2))));
    }

    #[test]
    fn messages_in_between_do_not_matter() {
        let mut unasked = Unasked::default();
        let mut position = 0;
        for _ in 0..100 {
            assert!(unasked.has_room(1, LINES, (position, position)));
            unasked.add(1, (position, position + LINES / SHARE));
            position += 3 * LINES;
            assert!(unasked.has_room(2, LINES, (position, position - 10)));
            unasked.add(2, (position, position + 1));
            position += LINES;
        }
    }

    #[test]
    fn a_new_session_starts_empty() {
        let mut unasked = Unasked::default();
        unasked.add(1, (LINES, 2 * LINES));
        assert!(!unasked.has_room(1, LINES, (2 * LINES, LINES)));
        assert!(unasked.has_room(1, LINES, (0, 0)));
    }
}
