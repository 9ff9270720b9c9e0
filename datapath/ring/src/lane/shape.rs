//! How the memory of a lane is divided, and how a record lies in it.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// The words outside of records, each on its own lines (processors fetch lines in pairs).
pub(crate) const OFFERED: usize = 0;
pub(crate) const TAIL: usize = 128;
pub(crate) const ACCEPTED: usize = 256;
pub(crate) const RELEASED: usize = 260;
pub(crate) const RECORDS: usize = 384;

/// Bytes of the word in front of a record.
pub(crate) const WORD: usize = 4;

/// The bytes that fill a line together with their word: those of the shortest Ethernet frame.
pub(crate) const ONE_LINE: usize = LINE - WORD;

/// Set in a word: another record became visible together with this one.
pub(crate) const MORE: u32 = 1;

/// The length in a word whose next record is at the start of the memory.
pub(crate) const SKIP: u32 = (1 << (LAP_AT - LENGTH_AT)) - 1;

const LENGTH_AT: u32 = 1;
const LAP_AT: u32 = 26;

/// The word of a record.
#[inline]
pub(crate) const fn word_of(lap: u32, length: u32) -> u32 {
    lap | length << LENGTH_AT
}

/// The lap in this word.
#[inline]
pub(crate) const fn lap_of(word: u32) -> u32 {
    word & !0 << LAP_AT
}

/// The length in this word, and whether [`MORE`] is set. Length 0: no record of this lap is there.
#[inline]
pub(crate) const fn parts_of(word: u32, lap: u32) -> (u32, bool) {
    let rest = word ^ lap;
    if is_none(rest) { (0, false) } else { (rest >> LENGTH_AT, rest & MORE != 0) }
}

/// Whether the rest of a word without its lap says that no record is there: another lap is left, or no length. One comparison.
#[inline(always)]
pub(crate) const fn is_none(rest: u32) -> bool {
    rest.wrapping_sub(1 << LENGTH_AT) >= (1 << LAP_AT) - (1 << LENGTH_AT)
}

/// Records of up to this many lines have their bytes right behind the word, longer ones on the next line, since a
/// long copy is faster between aligned addresses.
const PACKED: usize = 8;

/// A lane has room for at least this many of the longest records.
const LEAST_RECORDS: usize = 8;

/// The size of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLayout {
    /// The lines for records, a power of two.
    lines: u32,
    /// The longest frame, in bytes.
    longest: u32,
}

impl LaneLayout {
    /// The smallest lane for frames of at most `longest` bytes: it has room for several. `None` for a length that no lane has: it is 1 byte to
    /// 16 MiB.
    pub fn least(longest: usize) -> Option<LaneLayout> {
        LaneLayout::new(longest, 0)
    }

    /// A lane for frames of at most `longest` bytes that is as large as fits the L2 cache, or larger if they need more.
    pub fn for_frames(longest: usize) -> Option<LaneLayout> {
        LaneLayout::new(longest, 256 * 1024)
    }

    fn new(longest: usize, at_least: usize) -> Option<LaneLayout> {
        if !(1..=1 << 24).contains(&longest) {
            return None;
        }
        let bytes = (lines_of(longest) as usize * LINE * LEAST_RECORDS).next_power_of_two().max(at_least);
        Some(LaneLayout { lines: (bytes / LINE) as u32, longest: longest as u32 })
    }

    /// Bytes of memory that a lane takes in all.
    pub const fn bytes(&self) -> usize {
        RECORDS + LINE * self.lines as usize
    }

    /// The longest frame.
    pub const fn longest(&self) -> usize {
        self.longest as usize
    }

    #[inline]
    pub(crate) const fn lines(&self) -> u32 {
        self.lines
    }

    /// How many lines that were read are given back together.
    #[inline]
    pub(crate) const fn lines_to_release(&self) -> u32 {
        self.lines() / LEAST_RECORDS as u32
    }

    #[inline]
    const fn line(&self, number: u32) -> u32 {
        number & (self.lines() - 1)
    }

    /// The lines from this one to the end.
    #[inline]
    pub(crate) const fn lines_left(&self, number: u32) -> u32 {
        self.lines() - self.line(number)
    }

    /// The lap that this line is written in, as it stands in a word.
    #[inline]
    pub(crate) const fn lap(&self, number: u32) -> u32 {
        (number >> self.lines().trailing_zeros()) << LAP_AT
    }

    /// Where the word of the record on this line is.
    #[inline]
    pub(crate) const fn word(&self, number: u32) -> usize {
        RECORDS + self.line(number) as usize * LINE
    }
}

/// The lines of a record with this many bytes.
#[inline]
pub(crate) const fn lines_of(len: usize) -> u32 {
    (behind(len) + len).div_ceil(LINE) as u32
}

/// Where the bytes start behind the record's start.
#[inline]
pub(crate) const fn behind(len: usize) -> usize {
    if len <= PACKED * LINE - WORD { WORD } else { LINE }
}

/// What a receiver writes to refuse a session.
#[inline]
pub(super) const fn refusal(session: u32) -> u32 {
    !session
}

/// Identifies the two processes of a session. A process with another number is not meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(u32);

/// The part of a session's number that counts starts.
const ROUND: u32 = 0xff;
/// A bit of the rest that is always set, because fresh memory offers nothing.
const FIRST: u32 = ROUND + 1;

impl Pair {
    /// From the numbers that sender and receiver chose when they started.
    pub const fn new(sender: u32, receiver: u32) -> Pair {
        // Any function will do that differs when one of the two does.
        let mixed = (sender ^ receiver.rotate_left(16).wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b);
        Pair(mixed & !ROUND | FIRST)
    }

    /// The next start after `last`, which may be any number. Never 0.
    pub(crate) const fn after(self, last: u32) -> u32 {
        self.0 | ((last & ROUND) % ROUND + 1)
    }

    #[inline]
    pub(crate) const fn has(self, session: u32) -> bool {
        session & !ROUND == self.0 && session & ROUND != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_ethernet_frame_takes_one_line() {
        assert_eq!([1, 60, 61, 124, 508].map(lines_of), [1, 1, 2, 2, 8]);
        // One line more, and aligned.
        assert_eq!((lines_of(509), behind(509)), (9, LINE));
    }

    #[test]
    fn a_word_has_a_meaning_in_its_own_lap_only() {
        let lane = LaneLayout::least(60).unwrap();
        for (line, length) in [(0, 1), (7, 60), (8, 1 << 24), (u32::MAX, SKIP)] {
            let word = word_of(lane.lap(line), length);
            assert_eq!(parts_of(word, lane.lap(line)), (length, false));
            assert_eq!(parts_of(word | MORE, lane.lap(line)), (length, true));
            assert_eq!(parts_of(word, lane.lap(line.wrapping_add(lane.lines()))), (0, false));
        }
        // Positions wrap, and the laps go on.
        assert_eq!(lane.lap(u32::MAX).wrapping_add(lane.lap(lane.lines())), lane.lap(0));
        assert_eq!(parts_of(0, lane.lap(0)), (0, false));
    }

    #[test]
    fn no_start_is_like_the_one_before() {
        let pair = Pair::new(7, 9);
        for last in 0..=u32::from(u16::MAX) {
            let next = pair.after(last);
            assert!(next != last && next != 0 && pair.has(next));
        }
        assert!(!pair.has(pair.0), "no count at all");
        assert!(!Pair::new(9, 7).has(pair.after(0)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for longest in [0, (1 << 24) + 1, usize::MAX] {
            assert_eq!((LaneLayout::least(longest), LaneLayout::for_frames(longest)), (None, None), "{longest}");
        }
        assert!([1, 1500, 1 << 24].iter().all(|longest| LaneLayout::least(*longest).is_some()));
    }
}
