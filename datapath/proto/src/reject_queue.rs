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

use crate::timers::Armed;

/// The most that go out again at the end of a pause: fresh messages, of this
/// flow and of others, wait behind no more of them.
const BURST: u8 = 32;

/// The pace; the messages are the marked ones of the send queue.
#[derive(Debug)]
pub(crate) struct RejectQueue {
    /// The end of the pause; armed while any message is marked.
    pub(crate) armed: Armed,
    /// How often the pause doubled.
    pub(crate) backoff: u8,
    /// How many try it next.
    pub(crate) batch: u8,
    /// Some were sent again, and neither rejected nor accepted yet.
    pub(crate) tried: bool,
    /// Something was accepted: the pause is too long.
    pub(crate) hurry: bool,
}

impl Default for RejectQueue {
    fn default() -> Self {
        RejectQueue { armed: Armed::default(), backoff: 0, batch: 1, tried: false, hurry: false }
    }
}

impl RejectQueue {
    pub(crate) fn rejected(&mut self) {
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
