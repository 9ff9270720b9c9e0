//! The reject queue of one flow: FM's host reject queue (Pakin et al., §4.5).
//! Requests that a receiver without room returned, to be sent again later.
//!
//! ```text
//!   sent ──▶ rejected ──▶ the pause is over ──▶ sent again, behind what is fresh
//!     ▲                     a few at a time            │
//!     └────────────────────────────────────────────────┘
//! ```
//!
//! Pushed by: rejects from below. Popped by: the end of the pause, oldest
//! first; an acknowledgement (another copy was taken), the flow's end. Bounded
//! by: what is on its way, for it takes no memory: a returned message stays in
//! its slot and its place in the send queue, marked. Full: never.
//!
//! **Pace.** The pause is a round trip at first. It doubles when what was sent
//! again comes back once more, and then one message alone tries it; when the
//! receiver accepts, the pause is a round trip again and twice as many go. A
//! reject is not loss: it moves no time-out; nor silence: who is busy lives
//! (Chun et al.: "notes that the receiving interface is still reachable").

use wire::{Buffer, Class, Flow, Framing, Header, Reason, expand};

use crate::flow::FlowRecord;
use crate::flow::Phase;
use crate::node::Core;
use crate::planted::{self, Bug};
use crate::rtt::Waits;
use crate::time::Time;
use crate::timers::{Armed, Timers, Wait};

/// The most that go out again at the end of a pause: fresh messages, of this
/// flow and of others, wait behind no more of them.
const BURST: u8 = 32;

/// The pace; the messages are the marked ones of the send queue.
#[derive(Debug)]
pub(crate) struct RejectQueue {
    /// The end of the pause; armed while any message is marked.
    armed: Armed,
    /// How often the pause doubled.
    backoff: u8,
    /// How many try it next.
    batch: u8,
    /// Some were sent again, and neither rejected nor accepted yet.
    tried: bool,
    /// Something was accepted: the pause is too long.
    hurry: bool,
}

impl Default for RejectQueue {
    fn default() -> Self {
        RejectQueue { armed: Armed::default(), backoff: 0, batch: 1, tried: false, hurry: false }
    }
}

impl RejectQueue {
    fn rejected(&mut self) {
        self.batch = 1;
        self.hurry = false;
        if self.tried {
            self.tried = false;
            self.backoff = self.backoff.saturating_add(1);
        }
    }

    /// The receiver took something: it has room.
    #[inline]
    pub(crate) fn accepted(&mut self) {
        if self.armed.is_armed() || self.backoff > 0 {
            self.recover();
        }
    }

    #[cold]
    fn recover(&mut self) {
        *self = RejectQueue {
            armed: self.armed,
            backoff: 0,
            batch: (self.batch * 2).min(BURST),
            tried: false,
            hurry: self.armed.is_armed(),
        };
    }
}

impl<B: Buffer> Core<B> {
    /// A request of ours came back. It is kept, to be sent again; what makes no
    /// sense (late, twice, never sent, acknowledged since) changes nothing.
    #[cold]
    pub(crate) fn on_reject(&mut self, header: &Header, framing: Framing) -> Result<(), Reason> {
        let record = self.flows.by_flow(header.flow).ok_or(Reason::NoFlow)?;
        record.check(framing, header)?;
        record.touch(&mut self.touched);
        let queue = &mut record.send[Class::Request];
        let seq = expand(header.seq, framing.seq_bits(), queue.near().0);
        let rejected = queue.reject(&mut self.slots, seq);
        if rejected == 0 {
            self.counters.rejects_stale += 1;
            return Ok(());
        }
        self.counters.rejects_received += rejected as u64;
        record.rejects.rejected();
        if !record.rejects.armed.is_armed() && !planted::is(Bug::LostReject) {
            let pause = record.rtt.pause(&self.waits, record.rejects.backoff);
            // Senders that were rejected together must not come back together.
            let pause = pause + self.random.next() % (pause / 2 + 1);
            self.timers.arm(&mut record.rejects.armed, Wait::Reject, header.flow.id(), self.now.later(pause));
        }
        Ok(())
    }

    /// The pause is over: some go out again.
    pub(crate) fn reject_timeout(&mut self, now: Time, at: Time, flow: Option<Flow>) {
        let Some(record) = flow.and_then(|flow| self.flows.by_flow(flow)) else { return };
        let rejects = &mut record.rejects;
        if !rejects.armed.fired(at) || record.phase != Phase::Open {
            return;
        }
        rejects.hurry = false;
        let batch = rejects.batch as u32;
        let resent = record.send[Class::Request].resend_rejected(&mut self.slots, &mut self.ready, batch as usize);
        self.counters.rejected_resent += resent as u64;
        rejects.tried |= resent > 0;
        if resent == batch {
            // There may be more.
            let pause = record.rtt.pause(&self.waits, rejects.backoff);
            let pause = pause + self.random.next() % (pause / 2 + 1);
            self.timers.arm(&mut rejects.armed, Wait::Reject, record.id.flow.id(), now.later(pause));
        }
    }
}

impl FlowRecord {
    /// There is room again: the pause becomes a short one.
    #[inline]
    pub(crate) fn hurry(&mut self, now: Time, timers: &mut Timers, waits: &Waits) {
        if self.rejects.hurry {
            self.rejects.hurry = false;
            let due = now.later(self.rtt.pause(waits, 0));
            timers.arm(&mut self.rejects.armed, Wait::Reject, self.id.flow.id(), due);
        }
    }
}
