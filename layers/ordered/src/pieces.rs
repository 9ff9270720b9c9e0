//! Contents of long messages as frames of the group: a piece is sent once, and reaches all members.
//!
//! ```text
//!   sender ── piece 0, 1, 2 .. ──▶ the group       no more than a window beyond what the slowest member has
//!          ◀── all before 7, but 9 and 12 ── each  with each 16th piece, and when the sender asks
//!          ── piece 9, 12 ──▶ that member
//! ```
//!
//! The window grows while nothing is lost, and halves when something is. Senders share what a receiver can queue. A member that does not answer is
//! not waited for: it fetches contents by their names, like one that begins to listen in the middle. No I/O and no clock here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use am_ordered_core::MemberId;
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// The address of a member's node, as a number.
pub(crate) type Link = u64;

/// A receiver reports after each 16th piece of a sender's stream.
const EACH: u64 = 16;
/// The windows of all senders, in pieces. A receiver queues 512 frames, and not only pieces.
const ALL_WINDOWS: u64 = 256;
/// A sender's window, in pieces: at first, and at least.
const FIRST_WINDOW: u64 = 64;
const LEAST_WINDOW: u64 = 8;
/// The window grows by a piece with so many that all have.
const GROWTH: u64 = 8;
/// One whose last piece is older sends none at this time.
const SENDS: Duration = Duration::from_millis(50);
/// A gap of more pieces is none that will be filled.
const MOST_AHEAD: usize = 1024;
/// The most missing pieces in a report.
const MOST_MISSING: usize = 64;
/// The sender asks when it has heard nothing of its last pieces for this time.
const ASK: Duration = Duration::from_millis(3);
/// A member that has said nothing for this time is not waited for.
const PATIENCE: Duration = Duration::from_millis(200);
/// What a member misses is sent again at most so often.
const AGAIN: Duration = Duration::from_millis(1);
/// The most senders whose contents are put together.
const MOST_SENDERS: usize = 128;
/// The most bytes of a sender's unfinished contents, unless one alone has more.
const MOST_BYTES: usize = 32 << 20;

/// A piece of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its place in the stream of all pieces of its sender.
    pub(crate) place: u64,
    /// The sender's id for the content, and the content's bytes.
    pub(crate) id: u64,
    pub(crate) length: u64,
    /// Its place in the content, in pieces of this many bytes.
    pub(crate) nth: u32,
    pub(crate) size: u32,
    /// The sender has no pieces before this place, and no contents before this id, any more.
    pub(crate) first: u64,
    pub(crate) first_id: u64,
    /// The sender asks for a report.
    pub(crate) asks: bool,
    pub(crate) bytes: Bytes,
}

/// What a member has of a sender's pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// It has all before this one.
    before: u64,
    /// Of those that it knows of, it misses these.
    missing: Vec<u64>,
}

/// What a piece has led to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Got {
    /// A content is complete.
    pub(crate) content: Option<(u64, Bytes)>,
    pub(crate) report: Option<Report>,
}

/// A piece that makes no sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The contents that a member sends, and those that it receives.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) sending: Sending,
    receiving: BTreeMap<MemberId, Receiving>,
    most: u64,
}

impl Contents {
    /// Pieces have `size` bytes, and contents at most `most` bytes.
    pub(crate) fn new(size: usize, most: u64) -> Contents {
        Contents { sending: Sending::new(size), receiving: BTreeMap::new(), most }
    }

    /// A piece has arrived from a member.
    pub(crate) fn on_piece(&mut self, now: Duration, from: MemberId, piece: &Piece) -> Result<Got, Malformed> {
        if self.receiving.len() >= MOST_SENDERS && !self.receiving.contains_key(&from) {
            // Most of them are members no more. The others' contents are fetched.
            self.receiving.clear();
        }
        let receiving = self.receiving.entry(from).or_insert_with(|| Receiving::from(piece.place));
        receiving.heard_at = now;
        receiving.on_piece(piece, self.most)
    }

    /// Let the own window be no larger than its share, now that others send, too.
    pub(crate) fn share(&mut self, now: Duration) {
        let others = self.receiving.values().filter(|receiving| receiving.heard_at + SENDS > now).count();
        self.sending.most = (ALL_WINDOWS / (1 + others as u64)).max(LEAST_WINDOW);
    }
}

/// The contents that a member sends.
#[derive(Debug)]
pub(crate) struct Sending {
    size: usize,
    contents: VecDeque<Content>,
    /// The place of the next piece that was never sent, and of the one behind the last content.
    next: u64,
    end: u64,
    /// Pieces that a member misses, or several: `None`.
    again: BTreeMap<u64, Option<Link>>,
    members: BTreeMap<Link, Member>,
    window: u64,
    most: u64,
    /// A loss of a piece before this one has made the window smaller.
    halved_at: u64,
    /// When a piece was sent last.
    sent_at: Duration,
}

#[derive(Debug)]
struct Content {
    id: u64,
    /// The place of its first piece.
    first: u64,
    payload: Bytes,
}

/// What the sender knows of a member.
#[derive(Debug)]
struct Member {
    /// It has all before this one.
    before: u64,
    /// It owes an answer since then.
    since: Duration,
    again_at: Duration,
}

impl Sending {
    /// Pieces have this many bytes.
    pub(crate) fn new(size: usize) -> Sending {
        Sending {
            size: size.max(1),
            contents: VecDeque::new(),
            next: 0,
            end: 0,
            again: BTreeMap::new(),
            members: BTreeMap::new(),
            window: FIRST_WINDOW,
            most: ALL_WINDOWS,
            halved_at: 0,
            sent_at: Duration::ZERO,
        }
    }

    /// Whether a member may miss a piece.
    pub(crate) fn has_more(&self) -> bool {
        !self.contents.is_empty()
    }

    /// Send this content, too.
    pub(crate) fn push(&mut self, id: u64, payload: Bytes) {
        let content = Content { id, first: self.end, payload };
        self.end = self.end_of(&content);
        self.contents.push_back(content);
    }

    /// The next piece, and the member that it is for; `None`: all. It is the next one again until it was [sent](Sending::sent).
    pub(crate) fn next(&mut self, now: Duration, members: &[Link]) -> Option<(Option<Link>, Piece)> {
        self.members.retain(|link, _| members.contains(link));
        for link in members {
            let new = Member { before: self.next, since: now, again_at: Duration::ZERO };
            self.members.entry(*link).or_insert(new);
        }
        let before = self.slowest(now);
        while self.contents.front().is_some_and(|content| self.end_of(content) <= before) {
            self.contents.pop_front();
        }
        while let Some((place, link)) = self.again.first_key_value() {
            if let Some(piece) = self.piece(*place, false) {
                return Some((*link, piece));
            }
            self.again.pop_first();
        }
        let until = self.end.min(before + self.window.min(self.most));
        if self.next < until {
            // Behind the last one that may leave nothing would make the others report.
            return Some((None, self.piece(self.next, self.next + 1 == until)?));
        }
        let is_due = before < self.next && self.sent_at + ASK <= now;
        if is_due { Some((None, self.piece(self.next - 1, true)?)) } else { None }
    }

    /// The next piece has left.
    pub(crate) fn sent(&mut self, now: Duration, piece: &Piece) {
        self.sent_at = now;
        if self.again.remove(&piece.place).is_none() && piece.place == self.next {
            // Those that have had all owe an answer from now on.
            let idle = self.members.values_mut().filter(|member| member.before == piece.place);
            idle.for_each(|member| member.since = now);
            self.next += 1;
        }
    }

    /// When a piece is due, if none was before.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        let is_behind = self.members.values().any(|member| member.before < self.next) && !self.contents.is_empty();
        is_behind.then_some(self.sent_at + ASK)
    }

    /// A member has said what it has.
    pub(crate) fn on_report(&mut self, now: Duration, from: Link, report: &Report) {
        let before = self.slowest(now);
        let Some(member) = self.members.get_mut(&from) else { return };
        member.before = member.before.max(report.before.min(self.next));
        member.since = now;
        let may_ask = member.again_at <= now;
        if let Some(first) = report.missing.first().filter(|_| may_ask) {
            member.again_at = now + AGAIN;
            if *first >= self.halved_at {
                (self.window, self.halved_at) = ((self.window / 2).max(LEAST_WINDOW), self.next);
            }
            for place in report.missing.iter().filter(|place| **place < self.next).take(MOST_MISSING) {
                self.again.entry(*place).and_modify(|to| *to = to.filter(|to| *to == from)).or_insert(Some(from));
            }
        }
        if report.missing.is_empty() {
            let further = self.slowest(now).saturating_sub(before);
            self.window = (self.window + further / GROWTH).min(self.most);
        }
    }

    /// The bytes that the slowest member that answers does not have yet.
    pub(crate) fn backlog(&self, now: Duration) -> usize {
        (self.end - self.slowest(now).min(self.end)) as usize * self.size
    }

    /// All members that answer have all before this one.
    fn slowest(&self, now: Duration) -> u64 {
        let answering = self.members.values().filter(|member| member.since + PATIENCE > now);
        answering.map(|member| member.before).min().unwrap_or(self.next)
    }

    fn end_of(&self, content: &Content) -> u64 {
        content.first + content.payload.len().div_ceil(self.size) as u64
    }

    fn piece(&self, place: u64, asks: bool) -> Option<Piece> {
        let behind = self.contents.partition_point(|content| content.first <= place);
        let content = self.contents.get(behind.checked_sub(1)?).filter(|content| place < self.end_of(content))?;
        let nth = (place - content.first) as usize;
        let bytes = content.payload.slice(nth * self.size..content.payload.len().min((nth + 1) * self.size));
        let (length, nth, size) = (content.payload.len() as u64, nth as u32, self.size as u32);
        let Content { first, id: first_id, .. } = *self.contents.front()?;
        Some(Piece { place, id: content.id, length, nth, size, first, first_id, asks, bytes })
    }
}

/// The contents of one sender that are on their way.
#[derive(Debug)]
pub(crate) struct Receiving {
    heard_at: Duration,
    /// All pieces before this one are here, or are not waited for.
    before: u64,
    /// Whether that one, and those behind it, are here.
    here: VecDeque<bool>,
    contents: BTreeMap<u64, Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    bytes: BytesMut,
    missing: usize,
}

impl Receiving {
    /// Listen from this piece on.
    pub(crate) fn from(place: u64) -> Receiving {
        Receiving { heard_at: Duration::ZERO, before: place, here: VecDeque::new(), contents: BTreeMap::new() }
    }

    /// A piece has arrived. A content of more than `most` bytes is not possible.
    pub(crate) fn on_piece(&mut self, piece: &Piece, most: u64) -> Result<Got, Malformed> {
        let Piece { place, length, nth, size, .. } = *piece;
        let start = u64::from(nth) * u64::from(size);
        let is_whole = start < length && piece.bytes.len() as u64 == (length - start).min(size.into());
        if !is_whole || length > most {
            return Err(Malformed);
        }
        let content = self.take(piece, start as usize);
        let is_due = piece.asks || place % EACH == EACH - 1;
        Ok(Got { content, report: is_due.then(|| self.report()) })
    }

    fn take(&mut self, piece: &Piece, start: usize) -> Option<(u64, Bytes)> {
        let index = usize::try_from(piece.place.checked_sub(self.before)?).unwrap_or(usize::MAX);
        if index >= MOST_AHEAD {
            *self = Receiving::from(piece.place);
            return self.take(piece, start);
        }
        if self.here.len() <= index {
            self.here.resize(index + 1, false);
        }
        if std::mem::replace(&mut self.here[index], true) {
            return None;
        }
        self.contents.retain(|id, _| *id >= piece.first_id);
        while self.here.front().is_some_and(|here| *here || self.before < piece.first) {
            self.here.pop_front();
            self.before += 1;
        }
        let (length, size) = (piece.length as usize, piece.size as usize);
        let bytes = |of: &BTreeMap<u64, Unfinished>| of.values().map(|content| content.bytes.len()).sum::<usize>();
        if !self.contents.contains_key(&piece.id) {
            // The first ones are of messages that were fetched otherwise, or will never be whole.
            while bytes(&self.contents) + length > MOST_BYTES && self.contents.pop_first().is_some() {}
        }
        let new = || Unfinished { bytes: BytesMut::zeroed(length), missing: length.div_ceil(size) };
        let content = self.contents.entry(piece.id).or_insert_with(new);
        content.bytes.get_mut(start..start + piece.bytes.len())?.copy_from_slice(&piece.bytes);
        content.missing = content.missing.saturating_sub(1);
        if content.missing > 0 {
            return None;
        }
        self.contents.remove(&piece.id).map(|content| (piece.id, content.bytes.freeze()))
    }

    fn report(&self) -> Report {
        let missing = (self.before..).zip(&self.here).filter(|(_, here)| !**here).map(|(place, _)| place);
        Report { before: self.before, missing: missing.take(MOST_MISSING).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    const MEMBERS: [Link; 3] = [11, 12, 13];
    const SIZE: usize = 10;

    fn content(id: u64, length: usize) -> Bytes {
        (0..length).map(|at| (at as u64 * 7 + id) as u8).collect()
    }

    /// A sender and its receivers on a network that loses, doubles and reorders. Returns what each has, and the pieces that were sent.
    fn run(seed: u64, loss: f64, lengths: &[usize]) -> (Vec<Vec<(u64, Bytes)>>, u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut sending, mut now, mut count) = (Sending::new(SIZE), Duration::ZERO, 0);
        let mut receiving = MEMBERS.map(|_| None::<Receiving>);
        let mut got = vec![vec![]; MEMBERS.len()];
        let mut flying: Vec<(Duration, usize, Piece)> = vec![];
        let mut reports: Vec<(Duration, Link, Report)> = vec![];
        lengths.iter().zip(0..).for_each(|(length, id)| sending.push(id, content(id, *length)));
        while !(sending.contents.is_empty() && flying.is_empty()) {
            now += Duration::from_micros(20);
            assert!(now < Duration::from_secs(20), "seed {seed}: it ends: {sending:?}");
            while let Some((to, piece)) = sending.next(now, &MEMBERS) {
                count += 1;
                sending.sent(now, &piece);
                for (nth, link) in MEMBERS.iter().enumerate() {
                    let copies = if rng.random_bool(0.05) { 2 } else { 1 };
                    for _ in 0..copies {
                        if to.is_none_or(|to| to == *link) && !rng.random_bool(loss) {
                            // Only a network that loses pieces lets them overtake each other.
                            let at =
                                now + Duration::from_micros(if loss > 0.0 { rng.random_range(10..80) } else { 60 });
                            flying.push((at, nth, piece.clone()));
                        }
                    }
                }
            }
            let (due, later) = flying.into_iter().partition(|(at, ..)| *at <= now);
            flying = later;
            for (_, nth, piece) in due {
                let receiving = receiving[nth].get_or_insert_with(|| Receiving::from(0));
                let Got { content, report } = receiving.on_piece(&piece, 1 << 20).expect("it is whole");
                got[nth].extend(content);
                reports.extend(report.filter(|_| !rng.random_bool(loss)).map(|report| (now, MEMBERS[nth], report)));
            }
            reports.drain(..).for_each(|(_, link, report)| sending.on_report(now, link, &report));
        }
        (got, count)
    }

    #[test]
    fn every_content_arrives_whole_and_once() {
        let lengths = [5, 10, 11, 3000, 1, 20_000, 640];
        for seed in 0..40 {
            let loss = [0.0, 0.01, 0.2][seed as usize % 3];
            let (got, count) = run(seed, loss, &lengths);
            for mut contents in got {
                contents.sort_by_key(|(id, _)| *id);
                let expected: Vec<_> = (0..).zip(lengths).map(|(id, length)| (id, content(id, length))).collect();
                assert_eq!(contents, expected, "seed {seed}");
            }
            let pieces: u64 = lengths.iter().map(|length| length.div_ceil(SIZE) as u64).sum();
            assert!(loss > 0.0 || count <= pieces + 1, "{count} frames for {pieces} pieces");
        }
    }

    #[test]
    fn a_member_that_says_nothing_is_not_waited_for() {
        let (mut sending, mut now, mut count) = (Sending::new(SIZE), Duration::ZERO, 0);
        sending.push(0, content(0, 10_000));
        while !sending.contents.is_empty() {
            now += Duration::from_millis(1);
            assert!(now < Duration::from_secs(1), "{sending:?}");
            while let Some((_, piece)) = sending.next(now, &MEMBERS) {
                sending.sent(now, &piece);
                count += 1;
                // The others have got all.
                for link in &MEMBERS[1..] {
                    sending.on_report(now, *link, &Report { before: piece.place + 1, missing: vec![] });
                }
            }
        }
        assert!(count < 1080, "{count} frames for 1000 pieces");
    }

    #[test]
    fn a_window_is_a_share_and_halves_once_for_what_was_lost_together() {
        let mut contents = Contents::new(SIZE, 100_000);
        contents.sending.push(0, content(0, 100_000));
        let sent = |contents: &mut Contents, now| {
            contents.share(now);
            let pieces = std::iter::from_fn(|| {
                let (to, piece) = contents.sending.next(now, &MEMBERS)?;
                contents.sending.sent(now, &piece);
                Some((to, piece.place, piece.asks))
            });
            pieces.collect::<Vec<_>>()
        };
        let (now, all) = (Duration::from_secs(1), 0..FIRST_WINDOW);
        let pieces = sent(&mut contents, now);
        assert_eq!(pieces, all.map(|place| (None, place, place + 1 == FIRST_WINDOW)).collect::<Vec<_>>());
        // The other members have lost the same piece, and each another one.
        for (link, other) in [(MEMBERS[0], 7), (MEMBERS[1], 8)] {
            contents.sending.on_report(now, link, &Report { before: 5, missing: vec![5, other] });
        }
        assert_eq!(contents.sending.window, FIRST_WINDOW / 2);
        let again = [(None, 5, false), (Some(MEMBERS[0]), 7, false), (Some(MEMBERS[1]), 8, false)];
        assert_eq!(sent(&mut contents, now), again);
        // Fifteen others begin to send.
        let mut other = Sending::new(SIZE);
        other.push(0, content(0, SIZE));
        let piece = other.piece(0, false).expect("it is there");
        (100..115).for_each(|id| drop(contents.on_piece(now, MemberId(id), &piece).expect("it is whole")));
        let whole = Report { before: FIRST_WINDOW, missing: vec![] };
        MEMBERS.iter().for_each(|link| contents.sending.on_report(now, *link, &whole));
        assert_eq!(sent(&mut contents, now).len() as u64, ALL_WINDOWS / 16);
    }

    #[test]
    fn one_that_begins_in_the_middle_has_the_contents_behind() {
        let mut sending = Sending::new(SIZE);
        (0..3).for_each(|id| sending.push(id, content(id, 25)));
        let pieces: Vec<Piece> = (1..9).map(|place| sending.piece(place, false).expect("it is there")).collect();
        let mut receiving = Receiving::from(1);
        let got = pieces.iter().filter_map(|piece| receiving.on_piece(piece, 100).expect("it is whole").content);
        assert_eq!(got.collect::<Vec<_>>(), [(1, content(1, 25)), (2, content(2, 25))]);
    }

    #[test]
    fn what_the_sender_has_no_more_is_not_missed() {
        let (mut sending, now) = (Sending::new(SIZE), Duration::from_secs(1));
        (0..2).for_each(|id| sending.push(id, content(id, 25)));
        let piece = |sending: &Sending, place| sending.piece(place, true).expect("it is there");
        let mut receiving = Receiving::from(0);
        receiving.on_piece(&piece(&sending, 1), 100).expect("it is whole");
        while let Some((_, piece)) = sending.next(now, &MEMBERS[1..]) {
            sending.sent(now, &piece);
            MEMBERS[1..].iter().for_each(|link| {
                let before = (piece.place + 1).min(4);
                sending.on_report(now, *link, &Report { before, missing: vec![] });
            });
        }
        let got = receiving.on_piece(&piece(&sending, 4), 100).expect("it is whole");
        assert_eq!(got.report, Some(Report { before: 3, missing: vec![3] }));
        assert_eq!(receiving.contents.keys().copied().collect::<Vec<_>>(), [1], "the other one is never whole");
    }

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        let mut sending = Sending::new(SIZE);
        sending.push(3, content(3, 25));
        let good = sending.piece(0, false).expect("it is there");
        let mut receiving = Receiving::from(0);
        for bad in [
            Piece { nth: 3, ..good.clone() },
            Piece { length: 0, ..good.clone() },
            Piece { length: 5, ..good.clone() },
            Piece { length: 101, ..good.clone() },
            Piece { size: 0, ..good.clone() },
            Piece { nth: u32::MAX, size: u32::MAX, length: u64::MAX, ..good.clone() },
            Piece { nth: 2, ..good.clone() },
        ] {
            assert_eq!(receiving.on_piece(&bad, 100), Err(Malformed), "{bad:?}");
        }
        assert!(receiving.contents.is_empty());
        // Another length than the first piece has said.
        receiving.on_piece(&good, 100).expect("it is whole");
        let other = Piece { place: 1, nth: 9, length: 100, ..good.clone() };
        assert_eq!(receiving.on_piece(&other, 100).expect("alone it makes sense").content, None);
        // A place far ahead begins anew.
        receiving.on_piece(&Piece { place: 1 << 40, ..good }, 100).expect("it is whole");
        assert_eq!((receiving.before, receiving.contents.len()), ((1 << 40) + 1, 1));
    }
}
