//! When a call is sent again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use am_api::ReturnReason;

use crate::calls::Ending;
use crate::codec::Encoded;
use crate::error::CallError;
use crate::peers::HeldPeer;
use crate::status::Status;

/// When calls of methods that are marked `#[idempotent]` are sent again: [`Peer::retrying`](crate::Peer::retrying). That is once the server was
/// not reached, has left, shuts down or is busy, and while there is time left. Each attempt at a server that does not answer takes its connection's
/// [patience](am_api::Builder::patience). Other methods are never sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How often a call is sent at most, the first time included.
    pub attempts: u32,
    /// The pause before it is sent again. It doubles each time.
    pub pause: Duration,
    /// How many calls in a hundred may be sent again in the long run: a server that is down does not get several times its load. Ten more are
    /// free.
    pub percent: u32,
}

impl Default for Retries {
    /// Three times, after 5 and 10 ms; one call in five.
    fn default() -> Retries {
        Retries { attempts: 3, pause: Duration::from_millis(5), percent: 20 }
    }
}

/// What the calls of a peer may still be sent again.
#[derive(Debug)]
pub(crate) struct Budget {
    policy: Retries,
    /// In hundredths of a call.
    left: Cell<u32>,
}

/// Calls that may be sent again without any that were not, in hundredths.
const FREE: u32 = 10 * 100;

impl Budget {
    pub(crate) fn new(policy: Retries) -> Rc<Budget> {
        Rc::new(Budget { policy, left: Cell::new(FREE) })
    }

    /// A call is made.
    fn earn(&self) {
        self.left.set(self.left.get().saturating_add(self.policy.percent).min(FREE));
    }

    /// A call is to be sent again.
    fn spend(&self) -> bool {
        let left = self.left.get().checked_sub(100);
        left.into_iter().for_each(|left| self.left.set(left));
        left.is_some()
    }
}

/// What it takes to send a call again.
pub(crate) struct Again {
    pub(crate) peer: HeldPeer,
    pub(crate) arguments: Encoded,
    /// Until when it has to be answered.
    pub(crate) due: Duration,
    budget: Rc<Budget>,
    attempts: u32,
    pause: Duration,
    /// Why an earlier attempt may have run.
    unknown: Option<ReturnReason>,
}

impl Again {
    pub(crate) fn new(peer: HeldPeer, arguments: Encoded, due: Duration, budget: &Rc<Budget>) -> Box<Again> {
        budget.earn();
        let Retries { attempts, pause, .. } = budget.policy;
        Box::new(Again { peer, arguments, due, budget: budget.clone(), attempts, pause, unknown: None })
    }

    /// How long to wait before it is sent again. `None` if it is not: [`or_earlier`](Again::or_earlier) is the outcome.
    pub(crate) fn pause(&mut self, ending: &Ending, now: Duration) -> Option<Duration> {
        let unknown = match ending {
            Ending::NoAnswer(CallError::Unknown(why)) => Some(*why),
            Ending::NoAnswer(CallError::Dead(_)) | Ending::Answer(Status::Busy | Status::ShuttingDown, _) => None,
            _ => return None,
        };
        let is_in_time = now.saturating_add(self.pause) < self.due;
        if self.attempts <= 1 || !is_in_time || !self.budget.spend() {
            return None;
        }
        self.unknown = unknown.or(self.unknown);
        self.attempts -= 1;
        let pause = self.pause;
        self.pause = pause.saturating_mul(2);
        Some(pause)
    }

    /// The outcome of all attempts: that the last one did not run says nothing about an earlier one.
    pub(crate) fn or_earlier(&self, ending: &mut Ending) {
        let may_have_run = match ending {
            Ending::Answer(status, _) => status.has_run(),
            Ending::NoAnswer(error) => error.may_have_run(),
        };
        if let Some(why) = self.unknown.filter(|_| !may_have_run) {
            *ending = Ending::NoAnswer(CallError::Unknown(why));
        }
    }
}
