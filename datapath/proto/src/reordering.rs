//! Late or lost: how a sender judges a message that later ones have overtaken.
//!
//! ```text
//!   no message came late so far    lost after three later messages arrived
//!   some did                       lost when it is older than the *tolerance* (RACK: RFC 8985, §6.2)
//! ```
//!
//! **The tolerance grows** when the receiver reports a duplicate of a message that was sent again by this rule: the
//! retransmission was spurious (DSACK, RFC 3708). The tolerance becomes the age of the message at that report. RACK's
//! steps of a quarter round trip would be too short: while all other messages are sent again, only those that overtook
//! others give a round-trip sample (Karn), so the round trip is underestimated.
//!
//! **It shrinks** to the largest age at which late messages still arrive, and to zero when none comes late any more.
//!
//! The receiver also takes gaps for loss, and lowers the senders' [fair share](crate::fair_share). It cannot distinguish
//! late from lost. So a sender with a tolerance reports how many messages were lost, and the receiver uses this number
//! instead of its gaps.

use std::mem;

use am_wire::{AckHint, Class, Seq, SeqLowBits};

use crate::mutants::{self, Mutant};
use crate::rtt::{Answer, Rtt, Timing};
use crate::time::Time;

/// How many later messages must arrive before an earlier one counts as lost, as long as nothing shows that the network
/// reorders more.
pub(crate) const LOSS_THRESHOLD: i32 = 3;

/// How long the tolerance stays before it may shrink, as a multiple of itself.
const SHRINK_AFTER_TOLERANCES: u64 = 16;

/// The loss report is repeated after this many acknowledgements with gaps.
const ACKS_BETWEEN_REPORTS: u8 = 16;

/// For how many gaps a loss report is valid. The sender repeats it long before.
const GAPS_PER_REPORT: u8 = 64;

/// The largest step of the tolerance, as a multiple of itself and of the RTO. The age of a report is no measure of the
/// network when the peer was descheduled.
const MAX_TOLERANCE_GROWTH: u64 = 8;

/// How often `Late` is reported. One report may be lost.
const LATE_REPORTS: u8 = 2;

/// The most doublings of the wait in [`Reordering::begin_doubt`].
const MAX_WAIT_DOUBLINGS: u8 = 6;

/// The most doublings of the age at which a message is sent a third time.
const MAX_AGE_DOUBLINGS: u8 = 10;

/// What both sides of a flow know about reordering and loss.
#[derive(Debug, Default)]
pub(crate) struct Reordering {
    /// Nanoseconds; 0 if no message came late.
    pub(crate) tolerance: u64,
    /// The largest age at which a message came late, without being sent again, since the tolerance last shrank.
    max_late_age: u64,
    shrink_at: Time,
    /// A message that was sent again. A report of a duplicate will show that it was late and not lost.
    pub(crate) doubt: Option<Doubt>,
    /// Doubts in a row for which no duplicate was reported.
    unanswered: u8,
    /// Messages in doubt in a row that were sent a third time, before a report could come.
    dropped: u8,
    /// By class: this side's messages that counted as lost under a tolerance.
    lost: [u32; 2],
    /// By class: acknowledgements with gaps until the next loss report.
    acks_until_report: [u8; 2],
    /// By class: how often to report `Late` instead of `Lost`.
    late_reports_left: [u8; 2],
    /// By class: what the peer reports about its messages.
    pub(crate) peer_losses: [PeerLosses; 2],
    /// The hint that the next acknowledgement carries.
    pub(crate) ack_hint: AckHint,
}

/// The peer's reports of its losses in one class.
#[derive(Debug, Default)]
pub(crate) struct PeerLosses {
    count: SeqLowBits,
    /// For how many more gaps the last report is valid. Until then the peer counts its losses itself, and gaps do not
    /// count as loss.
    pub(crate) gaps_covered: u8,
}

/// A message that was sent again, once, because later ones had overtaken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) class: Class,
    pub(crate) seq: Seq,
    /// When it was sent for the first and for the second time.
    sent_at: Time,
    again_at: Time,
}

/// The rule by which messages count as lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossRule {
    pub(crate) now: Time,
    pub(crate) tolerance: u64,
    /// A message that was sent again counts as lost only at this age.
    pub(crate) min_resend_age: u64,
    /// The message in doubt. [`LostMessages`](crate::send_queue::LostMessages) says whether it is sent again.
    pub(crate) doubted: Option<Seq>,
}

impl Reordering {
    /// This message is sent again for the first time: watch whether it arrives twice. One message at a time is enough,
    /// as RACK too evaluates at most one duplicate in a round trip. The round trip may be underestimated, so the wait
    /// for the report doubles each time that none comes.
    pub(crate) fn begin_doubt(
        &mut self,
        now: Time,
        class: Class,
        (seq, sent_at): (Seq, Time),
        rtt: &Rtt,
        timing: &Timing,
    ) {
        if let Some(earlier) = &self.doubt {
            let wait = (timing.min_timeout << self.unanswered).max(4 * rtt.min_resend_age()).max(2 * self.tolerance);
            if now.since(earlier.again_at) < wait {
                return;
            }
            self.unanswered = (self.unanswered + 1).min(MAX_WAIT_DOUBLINGS);
            self.dropped = 0;
        }
        self.doubt = Some(Doubt { class, seq, sent_at, again_at: now });
    }

    /// The message in doubt is sent a third time. A report of a duplicate would prove nothing now. If the round trip is underestimated, that
    /// was too early, and so would be each further one: the age doubles until a report has the time to come.
    pub(crate) fn drop_doubt(&mut self) {
        (self.doubt, self.dropped) = (None, (self.dropped + 1).min(MAX_AGE_DOUBLINGS));
    }

    /// The age at which a message is sent a third time.
    pub(crate) fn min_resend_age(&self, rtt: &Rtt) -> u64 {
        rtt.min_resend_age() << self.dropped
    }

    /// The receiver reports a duplicate. Returns whether this proves that the retransmission of the message in doubt was
    /// spurious.
    pub(crate) fn on_duplicate_report(
        &mut self,
        now: Time,
        class: Class,
        number: SeqLowBits,
        rtt: &mut Rtt,
        timing: &Timing,
    ) -> bool {
        let is_it = |doubt: &Doubt| doubt.class == class && SeqLowBits::from(doubt.seq) == number;
        let Some(Doubt { sent_at, again_at, .. }) = self.doubt.filter(is_it) else { return false };
        (self.doubt, self.unanswered, self.dropped) = (None, 0, 0);
        if !mutants::is_active(Mutant::LateIsLost) {
            let max_tolerance = MAX_TOLERANCE_GROWTH * rtt.min_resend_age().max(self.tolerance).max(timing.min_timeout);
            // The report answers one of the two copies, so the round trip of that copy is at least as long as this.
            rtt.sample(now.since(again_at), Answer::Alone);
            self.set_tolerance(now, now.since(sent_at).min(max_tolerance).max(self.tolerance), timing);
            self.max_late_age = 0;
            (self.late_reports_left, self.acks_until_report) = ([LATE_REPORTS; 2], [0; 2]);
        }
        true
    }

    fn set_tolerance(&mut self, now: Time, tolerance: u64, timing: &Timing) {
        self.tolerance = tolerance.min(timing.max_timeout);
        self.shrink_at = now.later(SHRINK_AFTER_TOLERANCES * self.tolerance);
    }

    /// A message came late and was not sent again.
    pub(crate) fn note_late(&mut self, age: u64) {
        if self.tolerance > 0 {
            self.max_late_age = self.max_late_age.max(age);
        }
    }

    /// A message of the peer arrived twice. If a hint already waits to be sent, it stays, so the first of several
    /// duplicates is reported.
    pub(crate) fn note_duplicate(&mut self, class: Class, seq: Seq) {
        if self.ack_hint == AckHint::None {
            self.ack_hint = AckHint::Repeated(class, seq.into());
        }
    }

    /// With each acknowledgement of gaps: shrink the tolerance if it is larger than needed.
    pub(crate) fn shrink(&mut self, now: Time, rtt: &Rtt, timing: &Timing) {
        if self.tolerance == 0 || now < self.shrink_at {
            return;
        }
        let needed = self.max_late_age + self.max_late_age / 8;
        let none = if self.tolerance < 2 * rtt.min_resend_age() { 0 } else { self.tolerance / 2 };
        self.set_tolerance(now, if needed > 0 { needed } else { none }, timing);
        self.max_late_age = 0;
    }

    /// Count `lost` messages. Returns whether a report to the peer is due.
    pub(crate) fn count_lost(&mut self, class: Class, lost: u32) -> bool {
        if self.tolerance == 0 {
            return false;
        }
        let (count, until_report) = (&mut self.lost[class.index()], &mut self.acks_until_report[class.index()]);
        *count = count.wrapping_add(lost);
        *until_report = if lost > 0 { 0 } else { until_report.saturating_sub(1) };
        // A hint that waits to be sent goes first. The loss report follows with the next acknowledgement of gaps.
        let is_due = *until_report == 0 && self.ack_hint == AckHint::None;
        if is_due {
            *until_report = ACKS_BETWEEN_REPORTS;
            let (late, count) = (&mut self.late_reports_left[class.index()], SeqLowBits::of(*count));
            self.ack_hint = if *late > 0 { AckHint::Late(class, count) } else { AckHint::Lost(class, count) };
            *late = late.saturating_sub(1);
        }
        is_due
    }
}

impl PeerLosses {
    /// Returns how many losses are new. The first report, also after a long pause, only sets the starting point.
    pub(crate) fn on_loss_report(&mut self, count: SeqLowBits) -> u32 {
        let is_first = mem::replace(&mut self.gaps_covered, GAPS_PER_REPORT) == 0;
        let news = count.since(self.count);
        // A report that an older one overtook has a smaller count, which wraps to a large difference.
        let is_late = !is_first && news > SeqLowBits::MAX_DISTANCE / 2;
        if !is_late {
            self.count = count;
        }
        if is_first || is_late { 0 } else { news }
    }

    /// Later messages overtook a gap. Returns whether the missing messages count as lost.
    pub(crate) fn counts_gap_as_loss(&mut self) -> bool {
        let is_loss = self.gaps_covered == 0;
        self.gaps_covered = self.gaps_covered.saturating_sub(1);
        is_loss
    }
}

#[cfg(test)]
mod tests;
