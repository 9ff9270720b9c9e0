//! The reject queue of one flow: FM's host reject queue (Pakin et al., §4.5). It has the requests that the receiver
//! rejected (NACKed) because it had no room. They are sent again later.
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
//! **Pace.** The pause is one round trip at first. When messages that were sent again are rejected again, the pause
//! doubles, and the next batch is one message. When the receiver accepts a message, the pause is one round trip again,
//! and the batch doubles. A reject is not loss, so it does not change the RTO. Nor is it silence, because a busy peer is
//! alive (Chun et al.: "notes that the receiving interface is still reachable").

use crate::time::TimerState;

/// The most messages that are sent again at the end of a pause. This bounds how long fresh messages, of this flow and of
/// others, wait behind them.
const MAX_BATCH: u8 = 32;

/// The pace. The messages themselves are the marked ones of the send queue.
#[derive(Debug)]
pub(crate) struct RejectQueue {
    /// The end of the pause; armed while any message is marked.
    pub(crate) timer: TimerState,
    /// How often the pause doubled.
    pub(crate) backoff: u8,
    /// How many messages are sent again at the end of the pause.
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
