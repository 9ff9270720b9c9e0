//! The reject queue of one flow: FM's host reject queue (Pakin et al., §4.5). It has the requests that a receiver
//! without room rejected, to be sent again later.
//!
//! ```text
//!   sent ──▶ rejected ──▶ the pause ends ──▶ sent again, behind fresh messages
//!     ▲                     a few at a time            │
//!     └────────────────────────────────────────────────┘
//! ```
//!
//! Pushed by: rejects from below. Popped by: the end of the pause, oldest first; an acknowledgement (another copy was
//! accepted); the flow's end. Bounded by: the messages in flight. It needs no memory of its own: a rejected message
//! stays in its slot and its place in the send queue, marked. It is never full.
//!
//! **Pace.** The pause is one round trip at first. When messages sent again are rejected once more, the pause doubles,
//! and the next time one message goes alone. When the receiver accepts, the pause is one round trip again, and twice as
//! many messages go. A reject is not loss: it moves no time-out. Nor is it silence: a busy peer is alive (Chun et al.:
//! "notes that the receiving interface is still reachable").

use crate::time::TimerState;

/// The most messages sent again at the end of a pause. Fresh messages, of this flow and of others, wait behind no more
/// than these.
const MAX_BATCH: u8 = 32;

/// The pace. The messages themselves are the marked ones of the send queue.
#[derive(Debug)]
pub(crate) struct RejectQueue {
    /// The end of the pause; armed while any message is marked.
    pub(crate) timer: TimerState,
    /// How often the pause doubled.
    pub(crate) backoff: u8,
    /// How many messages go at the end of the pause.
    pub(crate) batch: u8,
    /// Messages were sent again, and are neither rejected nor accepted yet.
    pub(crate) is_retrying: bool,
    /// The receiver accepted a message, so the pause is too long.
    pub(crate) is_pause_too_long: bool,
}

impl Default for RejectQueue {
    fn default() -> Self {
        RejectQueue { timer: TimerState::default(), backoff: 0, batch: 1, is_retrying: false, is_pause_too_long: false }
    }
}

impl RejectQueue {
    pub(crate) fn on_rejected(&mut self) {
        self.batch = 1;
        self.is_pause_too_long = false;
        if self.is_retrying {
            self.is_retrying = false;
            self.backoff = self.backoff.saturating_add(1);
        }
    }

    /// The receiver accepted a message: it has room.
    #[inline]
    pub(crate) fn on_accepted(&mut self) {
        if self.timer.is_armed() || self.backoff > 0 {
            self.reset_pace();
        }
    }

    #[cold]
    fn reset_pace(&mut self) {
        *self = RejectQueue {
            timer: self.timer,
            backoff: 0,
            batch: (self.batch * 2).min(MAX_BATCH),
            is_retrying: false,
            is_pause_too_long: self.timer.is_armed(),
        };
    }
}
