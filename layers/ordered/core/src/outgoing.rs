//! A member's own messages, until it delivers them.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::log::Level;
use crate::sequencer::FIRST_SEQ;
use crate::view::{Epoch, Time};

/// The most messages that are sent again at once.
const SENT_AGAIN: usize = 16;

/// The most bytes that are submitted and not delivered here, unless one message alone has more.
const SUBMITTED_BYTES: usize = 8 << 20;

/// The most bytes that wait, unless one message alone has more.
const WAITING_BYTES: usize = 64 << 20;

/// A member's own messages, in the order in which they were sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: VecDeque<Mine>,
    /// Of all that wait.
    bytes: usize,
    /// Of those that were submitted in this epoch.
    submitted_bytes: usize,
    epoch: Epoch,
    /// The first of the queue has this seq. Those in front of it are delivered.
    first_seq: u32,
    /// Messages at the front that an earlier epoch has numbered.
    numbered_before: usize,
    /// Messages behind those that were submitted.
    submitted: usize,
    /// Of these, messages at the front of which a number was seen.
    numbered: usize,
    limit: u32,
    again_at: Time,
    /// Those in front of this were sent again, and no number of them was seen since.
    again_to: usize,
    /// Those in front of this were submitted when messages were last sent again: where one was lost, the sequencer took none behind it.
    lost_to: usize,
}

#[derive(Debug)]
struct Mine {
    id: u64,
    level: Level,
    payload: Bytes,
    was_submitted: bool,
    /// Its number was seen, in this epoch.
    is_numbered: bool,
}

impl Mine {
    fn submission(&self, seq: u32, is_first: bool) -> Submission {
        Submission { id: self.id, seq, level: self.level, payload: self.payload.clone(), is_first }
    }
}

/// Whether one number of this member's messages comes before another. They wrap, and lie close together.
fn is_before(seq: u32, other: u32) -> bool {
    (other.wrapping_sub(seq) as i32) > 0
}

/// A message for the sequencer.
pub(crate) struct Submission {
    pub(crate) id: u64,
    pub(crate) seq: u32,
    pub(crate) level: Level,
    pub(crate) payload: Bytes,
    /// No epoch had it before.
    pub(crate) is_first: bool,
}

impl Outgoing {
    pub(crate) fn new() -> Outgoing {
        Outgoing {
            queue: VecDeque::new(),
            bytes: 0,
            submitted_bytes: 0,
            epoch: Epoch(0),
            first_seq: FIRST_SEQ,
            numbered_before: 0,
            submitted: 0,
            numbered: 0,
            limit: FIRST_SEQ,
            again_at: Time::ZERO,
            again_to: 0,
            lost_to: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether a message of this length may wait beside the others.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.queue.is_empty() || self.bytes + length <= WAITING_BYTES
    }

    pub(crate) fn push(&mut self, id: u64, level: Level, payload: Bytes) {
        self.bytes += payload.len();
        self.queue.push_back(Mine { id, level, payload, was_submitted: false, is_numbered: false });
    }

    /// A new epoch begins, whose log has this many undelivered messages of this member: its first ones. All others are submitted
    /// again.
    pub(crate) fn begin(&mut self, epoch: Epoch, numbered_before: usize) {
        (self.epoch, self.numbered_before) = (epoch, numbered_before.min(self.queue.len()));
        (self.first_seq, self.submitted, self.submitted_bytes) = (FIRST_SEQ, 0, 0);
        (self.numbered, self.limit, self.again_to, self.lost_to) = (0, FIRST_SEQ, 0, 0);
        self.queue.iter_mut().for_each(|mine| mine.is_numbered = false);
    }

    /// The sequencer lets messages with lower numbers be stamped.
    pub(crate) fn set_limit(&mut self, limit: u32) {
        if is_before(self.limit, limit) {
            self.limit = limit;
        }
    }

    /// The number of this message was seen. Those before it have numbers, too: the sequencer has sent them with their numbers to all, and whoever
    /// lacks one asks the others. A sender that fetches its numbers is the only one that could have sent them, so it asks for each.
    pub(crate) fn numbered(&mut self, seq: u32, fetches: bool, now: Time, patience: Time) {
        let index = seq.wrapping_sub(self.first_seq) as usize;
        if is_before(seq, self.first_seq) {
            return;
        }
        let submitted = self.numbered_before..self.numbered_before + self.submitted;
        let first = if fetches { index } else { self.numbered.min(index) };
        self.queue.range_mut(submitted.clone()).take(index + 1).skip(first).for_each(|mine| mine.is_numbered = true);
        let further = self.queue.range(submitted).skip(self.numbered).take_while(|mine| mine.is_numbered).count();
        if further > 0 {
            self.numbered += further;
            let lacks_more = self.numbered >= self.again_to && self.is_recovering();
            self.again_at = if lacks_more { now } else { now + patience };
        }
    }

    /// Messages of which none was seen are sent again, a few at a time. Others would come behind a gap.
    fn is_recovering(&self) -> bool {
        self.numbered < self.lost_to
    }

    /// The next message that may be submitted. One that was never submitted may not be longer than `longest`.
    pub(crate) fn next(&mut self, longest: usize, now: Time, patience: Time) -> Option<Submission> {
        let seq = self.first_seq.wrapping_add(self.submitted as u32);
        let index = self.numbered_before + self.submitted;
        let bytes = self.submitted_bytes;
        let may_leave = |mine: &&mut Mine| mine.was_submitted || mine.payload.len() <= longest;
        let fits = |mine: &&mut Mine| bytes == 0 || bytes + mine.payload.len() <= SUBMITTED_BYTES;
        let may_any = is_before(seq, self.limit) && !self.is_recovering();
        let mine = self.queue.get_mut(index).filter(|_| may_any).filter(may_leave).filter(fits)?;
        self.submitted_bytes += mine.payload.len();
        let is_first = !std::mem::replace(&mut mine.was_submitted, true);
        if self.submitted == self.numbered {
            self.again_at = now + patience;
        }
        self.submitted += 1;
        Some(mine.submission(seq, is_first))
    }

    /// The message with this number, if it was submitted and not delivered.
    pub(crate) fn submitted(&self, seq: u32) -> Option<Submission> {
        let index = seq.wrapping_sub(self.first_seq) as usize;
        let mine = self.queue.get(self.numbered_before + index).filter(|_| index < self.submitted)?;
        Some(mine.submission(seq, false))
    }

    /// An own message's content.
    pub(crate) fn payload(&self, id: u64) -> Option<&Bytes> {
        let index = self.queue.binary_search_by_key(&id, |mine| mine.id).ok()?;
        Some(&self.queue[index].payload)
    }

    /// When messages are sent again of which no number was seen.
    pub(crate) fn again_at(&self) -> Option<Time> {
        (self.numbered < self.submitted).then_some(self.again_at)
    }

    /// Those messages.
    pub(crate) fn again(&mut self, now: Time, patience: Time) -> Vec<Submission> {
        self.again_at = now + patience;
        let indices = self.numbered..self.submitted.min(self.numbered + SENT_AGAIN);
        (self.again_to, self.lost_to) = (indices.end, self.submitted);
        let seq = |index| self.first_seq.wrapping_add(index as u32);
        let mine = indices.map(|index| (index, &self.queue[self.numbered_before + index]));
        mine.filter(|(_, mine)| !mine.is_numbered).map(|(index, mine)| mine.submission(seq(index), false)).collect()
    }

    /// The first one is delivered. Returns its id.
    pub(crate) fn delivered(&mut self) -> Option<u64> {
        let mine = self.queue.pop_front()?;
        self.bytes -= mine.payload.len();
        if self.numbered_before > 0 {
            self.numbered_before -= 1;
        } else {
            self.first_seq = self.first_seq.wrapping_add(1);
            self.submitted = self.submitted.saturating_sub(1);
            self.submitted_bytes = self.submitted_bytes.saturating_sub(mine.payload.len());
            for index in [&mut self.numbered, &mut self.again_to, &mut self.lost_to] {
                *index = index.saturating_sub(1);
            }
        }
        Some(mine.id)
    }

    /// Take those that were submitted. Returns the same as [`take_all`](Outgoing::take_all).
    pub(crate) fn take_submitted(&mut self) -> Vec<(u64, bool)> {
        let count = self.queue.iter().take_while(|mine| mine.was_submitted).count();
        let taken = self.queue.drain(..count).map(|mine| (mine.id, true)).collect();
        self.bytes = self.queue.iter().map(|mine| mine.payload.len()).sum();
        self.begin(self.epoch, 0);
        taken
    }

    /// Take all. Returns their ids, and whether some member may have delivered them.
    pub(crate) fn take_all(&mut self) -> Vec<(u64, bool)> {
        let ended = self.queue.drain(..).map(|mine| (mine.id, mine.was_submitted)).collect();
        *self = Outgoing::new();
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;
    const PATIENCE: Time = Time::from_millis(5);

    fn outgoing(count: u64) -> Outgoing {
        let mut outgoing = Outgoing::new();
        (0..count).for_each(|id| outgoing.push(id, Level::Agreed, Bytes::new()));
        outgoing.begin(Epoch(1), 0);
        outgoing
    }

    /// A message by its place in the epoch, before and behind the wrap.
    fn seq(nth: u32) -> u32 {
        FIRST_SEQ.wrapping_add(nth)
    }

    fn nth(submission: &Submission) -> u32 {
        submission.seq.wrapping_sub(FIRST_SEQ)
    }

    fn seqs(outgoing: &mut Outgoing) -> Vec<u32> {
        std::iter::from_fn(|| outgoing.next(usize::MAX, NOW, PATIENCE)).map(|submission| nth(&submission)).collect()
    }

    #[test]
    fn messages_leave_as_credit_allows() {
        let mut outgoing = outgoing(5);
        assert_eq!(seqs(&mut outgoing), []);
        outgoing.set_limit(seq(2));
        assert_eq!(seqs(&mut outgoing), [0, 1]);
        outgoing.set_limit(seq(9));
        assert_eq!(seqs(&mut outgoing), [2, 3, 4]);
    }

    #[test]
    fn few_long_messages_are_submitted_at_once() {
        let (mut outgoing, long) = (Outgoing::new(), Bytes::from(vec![0; SUBMITTED_BYTES / 2]));
        (0..3).for_each(|id| outgoing.push(id, Level::Agreed, long.clone()));
        outgoing.begin(Epoch(1), 0);
        outgoing.set_limit(seq(9));
        assert_eq!(seqs(&mut outgoing), [0, 1]);
        assert_eq!((outgoing.delivered(), seqs(&mut outgoing)), (Some(0), vec![2]));
        assert!(outgoing.has_room(WAITING_BYTES - 2 * long.len()) && !outgoing.has_room(WAITING_BYTES));
        outgoing.take_all();
        assert!(outgoing.has_room(usize::MAX), "alone it always has");
    }

    #[test]
    fn only_messages_without_a_number_are_sent_again() {
        let mut outgoing = outgoing(4);
        outgoing.set_limit(seq(9));
        seqs(&mut outgoing);
        assert_eq!(outgoing.again_at(), Some(PATIENCE));
        outgoing.numbered(seq(1), false, NOW + PATIENCE, PATIENCE);
        assert_eq!(outgoing.again_at(), Some(2 * PATIENCE));
        let again: Vec<u32> = outgoing.again(NOW, PATIENCE).iter().map(nth).collect();
        assert_eq!(again, [2, 3]);
        outgoing.numbered(seq(3), false, NOW, PATIENCE);
        assert_eq!(outgoing.again_at(), None);
    }

    #[test]
    fn all_behind_a_lost_message_are_sent_again_one_after_the_other() {
        let mut outgoing = outgoing(60);
        outgoing.set_limit(seq(50));
        assert_eq!(seqs(&mut outgoing).len(), 50);
        outgoing.set_limit(seq(99));
        let later = NOW + PATIENCE;
        for part in [0..16, 16..32, 32..48] {
            assert_eq!(
                outgoing.again(later, PATIENCE).iter().map(nth).collect::<Vec<_>>(),
                Vec::from_iter(part.clone())
            );
            assert_eq!(
                (outgoing.again_at(), seqs(&mut outgoing)),
                (Some(later + PATIENCE), vec![]),
                "it would come behind a gap"
            );
            outgoing.numbered(seq(part.start), false, later, PATIENCE);
            assert_eq!(outgoing.again_at(), Some(later + PATIENCE), "the others are on their way");
            outgoing.numbered(seq(part.end - 1), false, later, PATIENCE);
            assert_eq!(outgoing.again_at(), Some(later), "the next ones are lost, too");
            part.for_each(|_| _ = outgoing.delivered());
        }
        assert_eq!(outgoing.again(later, PATIENCE).len(), 2);
        outgoing.numbered(seq(49), false, later, PATIENCE);
        assert_eq!((outgoing.again_at(), seqs(&mut outgoing).len()), (None, 10));
    }

    #[test]
    fn a_sender_that_fetches_asks_for_each_number() {
        let mut outgoing = outgoing(5);
        outgoing.set_limit(seq(9));
        seqs(&mut outgoing);
        outgoing.numbered(seq(0), true, NOW, PATIENCE);
        outgoing.numbered(seq(2), true, NOW, PATIENCE);
        let again = |outgoing: &mut Outgoing| outgoing.again(NOW, PATIENCE).iter().map(nth).collect::<Vec<_>>();
        assert_eq!(again(&mut outgoing), [1, 3, 4]);
        outgoing.numbered(seq(1), true, NOW, PATIENCE);
        assert_eq!(again(&mut outgoing), [3, 4]);
        outgoing.begin(Epoch(2), 0);
        outgoing.set_limit(seq(9));
        seqs(&mut outgoing);
        assert_eq!(again(&mut outgoing), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn no_long_message_leaves_while_contents_are_held_back() {
        let mut outgoing = Outgoing::new();
        for (id, length) in [(0, 1), (1, 9), (2, 1)] {
            outgoing.push(id, Level::Agreed, Bytes::from(vec![0; length]));
        }
        outgoing.begin(Epoch(1), 0);
        outgoing.set_limit(seq(9));
        let next =
            |outgoing: &mut Outgoing, longest| outgoing.next(longest, NOW, PATIENCE).map(|submission| nth(&submission));
        assert_eq!([next(&mut outgoing, 4), next(&mut outgoing, 4)], [Some(0), None]);
        assert_eq!([next(&mut outgoing, 9), next(&mut outgoing, 4)], [Some(1), Some(2)]);
        outgoing.begin(Epoch(2), 0);
        outgoing.set_limit(seq(9));
        assert_eq!([next(&mut outgoing, 4), next(&mut outgoing, 4)], [Some(0), Some(1)], "its content was sent");
    }

    #[test]
    fn a_message_is_found_from_its_submission_to_its_delivery() {
        let mut outgoing = outgoing(3);
        outgoing.set_limit(seq(2));
        seqs(&mut outgoing);
        let found =
            |outgoing: &Outgoing| [0, 1, 2].map(|nth| outgoing.submitted(seq(nth)).map(|submission| submission.id));
        assert_eq!(found(&outgoing), [Some(0), Some(1), None]);
        outgoing.delivered();
        assert_eq!(found(&outgoing), [None, Some(1), None]);
        outgoing.begin(Epoch(2), 1);
        outgoing.set_limit(seq(9));
        assert_eq!(found(&outgoing), [None; 3], "of the new epoch none");
        seqs(&mut outgoing);
        assert_eq!(found(&outgoing), [Some(2), None, None]);
    }

    #[test]
    fn a_new_epoch_submits_all_that_the_last_one_has_not_numbered() {
        let mut outgoing = outgoing(4);
        outgoing.set_limit(seq(9));
        seqs(&mut outgoing);
        assert_eq!(outgoing.delivered(), Some(0));
        outgoing.begin(Epoch(2), 1);
        outgoing.set_limit(seq(9));
        assert_eq!(seqs(&mut outgoing), [0, 1]);
        assert_eq!([outgoing.delivered(), outgoing.delivered()], [Some(1), Some(2)]);
        assert_eq!(outgoing.take_all(), [(3, true)]);
    }
}
