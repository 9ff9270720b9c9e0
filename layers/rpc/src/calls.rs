//! The calls of this side that have no outcome yet, or whose outcome was not fetched.
//!
//! ```text
//!   begin ──▶ Queued ──▶ Sent ──────────────── answer ──▶ Done ──▶ fetched
//!             no room      │                                ▲
//!             yet          └─ Running ──▶ Running ── RESULT ┘      a task of the server
//! ```
//!
//! `am-api` watches the deadline of a call that was sent, and the end of its connection. Before that, and once the server has answered that the
//! call runs, this table watches them.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::mem::take;
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use am_api::{CallId, Connection};
use slotmap::{SecondaryMap, SlotMap, new_key_type};

use crate::bytes::Bytes;
use crate::codec::DecodeError;
use crate::deadlines::{Deadlines, Ticket};
use crate::error::CallError;
use crate::method::{MethodId, MethodInfo, ServiceInfo, Skew};
use crate::status::{SentCall, Status};
use crate::stream::{StreamTable, Streams};

new_key_type! {
    /// A call of this side.
    pub(crate) struct CallKey;

    /// A peer.
    pub(crate) struct PeerKey;
}

/// A method as its client knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    pub(crate) service: &'static ServiceInfo,
    pub(crate) method: &'static MethodInfo,
}

/// How a call ended, before its bytes are read.
#[derive(Debug)]
pub(crate) enum Ending {
    Answer(Status, Bytes),
    /// For an answer with a status of another version, too.
    NoAnswer(CallError<Infallible>),
}

/// An answer without bytes: a place for another one.
impl Default for Ending {
    #[inline]
    fn default() -> Ending {
        Ending::Answer(Status::Value, Bytes::None)
    }
}

impl Ending {
    /// The error that this is, unless it is an answer with a value or an error of the service.
    pub(crate) fn into_error<E>(self, called: Called) -> CallError<E> {
        let skew = |bytes: &Bytes| {
            let ids: Vec<MethodId> = bytes
                .chunks_exact(8)
                .map(|chunk| MethodId::of_word(chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))))
                .collect();
            Box::new(Skew::new(called.service, called.method, &ids))
        };
        match self {
            Ending::NoAnswer(error) => error.map_service(|never| match never {}),
            Ending::Answer(Status::UnknownMethod, bytes) => CallError::UnknownMethod(skew(&bytes)),
            Ending::Answer(Status::Mismatch, bytes) => CallError::Mismatch(skew(&bytes)),
            Ending::Answer(Status::Late, _) => CallError::Late,
            Ending::Answer(Status::Panicked, _) => CallError::Panicked,
            Ending::Answer(Status::Busy, _) => CallError::Busy,
            Ending::Answer(Status::Forbidden, _) => CallError::Forbidden,
            Ending::Answer(Status::Unwritten, _) => CallError::UnencodableResult,
            Ending::Answer(Status::TooLong, _) => CallError::ResultTooLong,
            Ending::Answer(Status::ShuttingDown, _) => CallError::ShuttingDown,
            Ending::Answer(Status::Malformed, _) => CallError::Malformed,
            // Of a method without an error, and no end.
            Ending::Answer(Status::Value | Status::Error | Status::Running, bytes) => {
                CallError::MalformedResult(DecodeError::Left(bytes.len()))
            }
        }
    }
}

/// A call that is to be made.
pub(crate) struct NewCall {
    pub(crate) peer: PeerKey,
    pub(crate) method: MethodId,
    /// The time that it has, unless the call in progress has less.
    pub(crate) within: Duration,
    pub(crate) streams: Option<Rc<Streams>>,
}

/// Runs with the outcome of a call.
pub(crate) type Then = Box<dyn FnOnce(Ending)>;

/// A call without an outcome, or with one that was not fetched.
struct Waiting {
    phase: Phase,
    waker: Option<Waker>,
    streams: Option<Rc<Streams>>,
}

/// A call that is over, and those who have to hear of it once the table is not borrowed.
#[derive(Default)]
#[must_use]
pub(crate) struct Ended {
    waker: Option<Waker>,
    streams: Option<Rc<Streams>>,
}

impl Ended {
    #[inline]
    pub(crate) fn tell(self, table: &StreamTable) {
        if let Some(streams) = &self.streams {
            table.ended(streams);
        }
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }
}

impl Waiting {
    /// It is over.
    fn ended(&mut self) -> Ended {
        Ended { waker: self.waker.take(), streams: self.streams.take() }
    }
}

pub(crate) enum Phase {
    /// There was no room, or no connection.
    Queued(Queued),
    Sent(SentCall),
    Running(SentCall, Ticket),
    Done(Ending),
}

/// A call that waits for room.
pub(crate) struct Queued {
    pub(crate) method: MethodId,
    pub(crate) arguments: Vec<u8>,
    place: Place,
    due: Ticket,
}

impl Queued {
    pub(crate) fn peer(&self) -> PeerKey {
        self.place.0
    }

    /// The time that it has left.
    pub(crate) fn within(&self, now: Duration) -> Duration {
        self.due.0.saturating_sub(now)
    }
}

/// The peer for which a call waits, and its number among all that have waited.
type Place = (PeerKey, u64);

/// So many outcomes that were not fetched keep the frames in which they arrived, and their senders' credit. Further ones are copied: a program may
/// wait for the last of its calls first.
const MAX_KEPT: usize = 16;

/// All of them.
#[derive(Default)]
pub(crate) struct Calls {
    waiting: SlotMap<CallKey, Waiting>,
    /// Of those whose outcome is not fetched. Beside the others, because few calls have one.
    functions: SecondaryMap<CallKey, Then>,
    /// Functions that have not run yet, and the outcomes.
    outcomes: VecDeque<(Then, Ending)>,
    /// Of those that were sent, by the slot of their ids.
    sent: Vec<CallKey>,
    running: BTreeMap<SentCall, CallKey>,
    queue: BTreeMap<Place, CallKey>,
    /// How many have waited in the queue.
    queued: u64,
    /// Of those that run or wait in the queue.
    due: Deadlines<CallKey>,
    /// How many have an outcome that was not fetched.
    done: usize,
    /// Outcomes of calls that had been dropped, or had one.
    pub(crate) late: u64,
}

impl Calls {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many have no outcome.
    pub(crate) fn unfinished(&self) -> usize {
        self.waiting.len() - self.done
    }

    /// How many run at their servers as tasks.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// A call was sent.
    #[inline]
    pub(crate) fn add_sent(&mut self, call: SentCall, streams: Option<Rc<Streams>>) -> CallKey {
        let key = self.waiting.insert(Waiting { phase: Phase::Sent(call), waker: None, streams });
        self.has_slot(key, call.id);
        key
    }

    /// A call waits for room.
    pub(crate) fn add_queued(&mut self, new: NewCall, arguments: Vec<u8>, due: Duration) -> CallKey {
        let NewCall { peer, method, streams, .. } = new;
        self.queued += 1;
        let place = (peer, self.queued);
        self.waiting.insert_with_key(|key| {
            self.queue.insert(place, key);
            let due = self.due.add(due, key);
            Waiting { phase: Phase::Queued(Queued { method, arguments, place, due }), waker: None, streams }
        })
    }

    /// A call could not be sent.
    pub(crate) fn add_failed(&mut self, error: CallError<Infallible>) -> CallKey {
        self.done += 1;
        self.waiting.insert(Waiting { phase: Phase::Done(Ending::NoAnswer(error)), waker: None, streams: None })
    }

    /// Whether this call has an outcome, which is stored; otherwise this waker is woken then. Returns the waker that it replaces, too: dropping it
    /// may run code of the program.
    #[inline]
    pub(crate) fn poll(&mut self, key: CallKey, waker: &Waker, outcome: &mut Ending) -> (bool, Option<Waker>) {
        let Some(waiting) = self.waiting.get_mut(key) else { return (false, None) };
        if let Phase::Done(ending) = &mut waiting.phase {
            *outcome = take(ending);
            self.waiting.remove(key);
            self.done -= 1;
            return (true, None);
        }
        let is_known = waiting.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        (false, if is_known { None } else { waiting.waker.replace(waker.clone()) })
    }

    /// This function is to run with the outcome, of a call that has none yet. The waker is woken then.
    pub(crate) fn then(&mut self, key: CallKey, run: Then, waker: Waker) {
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.waker = Some(waker);
            self.functions.insert(key, run);
        }
    }

    /// The next function that can run, and its outcome.
    pub(crate) fn next_outcome(&mut self) -> Option<(Then, Ending)> {
        self.outcomes.pop_front()
    }

    /// No function runs any more.
    pub(crate) fn take_outcomes(&mut self) -> VecDeque<(Then, Ending)> {
        take(&mut self.outcomes)
    }

    /// Whether a further outcome may keep the frame in which it arrived.
    pub(crate) fn may_keep(&self) -> bool {
        self.done < MAX_KEPT
    }

    /// What this call does.
    pub(crate) fn phase(&self, key: CallKey) -> Option<&Phase> {
        self.waiting.get(key).map(|waiting| &waiting.phase)
    }

    /// The program dropped it. Returns its phase.
    pub(crate) fn forget(&mut self, key: CallKey) -> Option<(Phase, Ended)> {
        let mut waiting = self.waiting.remove(key)?;
        let ended = waiting.ended();
        self.leaves(&waiting.phase);
        Some((waiting.phase, ended))
    }

    /// A call leaves this phase.
    fn leaves(&mut self, phase: &Phase) {
        match phase {
            Phase::Sent(_) => {}
            Phase::Queued(Queued { place, due, .. }) => {
                self.queue.remove(place);
                self.due.remove(*due);
            }
            Phase::Running(call, due) => {
                self.running.remove(call);
                self.due.remove(*due);
            }
            Phase::Done(_) => self.done -= 1,
        }
    }

    /// The call that was sent with this id is that one from now on.
    #[inline]
    fn has_slot(&mut self, key: CallKey, id: CallId) {
        let slot = id.slot();
        if self.sent.len() <= slot {
            self.sent.resize(slot + 1, CallKey::default());
        }
        self.sent[slot] = key;
    }

    /// The call that was sent as this one. The table may know it no more: it was dropped.
    #[inline]
    pub(crate) fn key_of(&self, id: CallId) -> CallKey {
        self.sent.get(id.slot()).copied().unwrap_or_default()
    }

    /// It has this outcome.
    #[inline]
    pub(crate) fn end(&mut self, key: CallKey, ending: impl FnOnce() -> Ending) -> Ended {
        match self.waiting.get_mut(key) {
            // The first outcome holds.
            Some(waiting) if !matches!(waiting.phase, Phase::Done(_)) => {
                if !self.functions.is_empty()
                    && let Some(run) = self.functions.remove(key)
                {
                    return self.end_with(key, run, ending());
                }
                if !matches!(waiting.phase, Phase::Sent(_)) {
                    return self.end_listed(key, ending());
                }
                waiting.phase = Phase::Done(ending());
                self.done += 1;
                waiting.ended()
            }
            _ => {
                self.late += 1;
                Ended::default()
            }
        }
    }

    /// The same of one that waits for room, or runs.
    #[cold]
    fn end_listed(&mut self, key: CallKey, ending: Ending) -> Ended {
        let Some(waiting) = self.waiting.get_mut(key) else { return Ended::default() };
        let before = std::mem::replace(&mut waiting.phase, Phase::Done(ending));
        let ended = waiting.ended();
        self.done += 1;
        self.leaves(&before);
        ended
    }

    /// The same of one for which a function waits: nothing is left to fetch.
    #[inline(never)]
    fn end_with(&mut self, key: CallKey, run: Then, ending: Ending) -> Ended {
        let Some(mut waiting) = self.waiting.remove(key) else { return Ended::default() };
        self.leaves(&waiting.phase);
        self.outcomes.push_back((run, ending));
        waiting.ended()
    }

    /// All calls for which `end` has an error end.
    pub(crate) fn end_all(&mut self, end: impl Fn(&Phase) -> Option<CallError<Infallible>>) -> Vec<Ended> {
        let ends = self.waiting.iter().filter_map(|(key, waiting)| Some((key, end(&waiting.phase)?)));
        let ends: Vec<_> = ends.collect();
        ends.into_iter().map(|(key, error)| self.end(key, || Ending::NoAnswer(error))).collect()
    }

    /// The server runs it as a task.
    pub(crate) fn runs(&mut self, key: CallKey, call: SentCall, due: Duration) {
        let Some(waiting) = self.waiting.get_mut(key) else { return };
        // Its result may have come before.
        if !matches!(waiting.phase, Phase::Sent(_)) {
            return;
        }
        waiting.phase = Phase::Running(call, self.due.add(due, key));
        self.running.insert(call, key);
    }

    /// The call that was sent as this one and has no outcome. It runs, unless its result has come before the answer that it does.
    pub(crate) fn find(&self, call: SentCall) -> Option<CallKey> {
        self.running.get(&call).copied().or_else(|| {
            let key = self.key_of(call.id);
            matches!(self.phase(key), Some(Phase::Sent(sent)) if *sent == call).then_some(key)
        })
    }

    /// Whether a call on this connection waits for its answer.
    pub(crate) fn has_sent_on(&self, connection: Connection) -> bool {
        self.waiting.values().any(|call| matches!(call.phase, Phase::Sent(sent) if sent.on == connection))
    }

    /// The calls of this connection that run.
    pub(crate) fn running_on(&self, connection: Connection) -> Vec<CallKey> {
        self.running.range(SentCall::all_on(connection)).map(|(_, key)| *key).collect()
    }

    /// When the next call is due that runs or waits for room.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.next()
    }

    /// A call whose time is over, and that runs or waits for room.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<CallKey> {
        self.due.pop(now)
    }

    // ---- calls that wait for room

    /// Whether a call waits, of any peer.
    #[inline]
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a call of this peer waits.
    #[inline]
    pub(crate) fn has_queued(&self, peer: PeerKey) -> bool {
        self.has_queue() && self.queued_of(peer).next().is_some()
    }

    /// Those of this peer, in their order.
    fn queued_of(&self, peer: PeerKey) -> impl Iterator<Item = CallKey> {
        self.queue.range((peer, 0)..=(peer, u64::MAX)).map(|(_, key)| *key)
    }

    /// The first peer, behind this one, with calls that wait.
    pub(crate) fn next_queue(&self, behind: Option<PeerKey>) -> Option<PeerKey> {
        let begin = behind.map_or(Unbounded, |peer| Excluded((peer, u64::MAX)));
        self.queue.range((begin, Unbounded)).next().map(|(place, _)| place.0)
    }

    /// The first one of this peer.
    pub(crate) fn first_queued(&self, peer: PeerKey) -> Option<(CallKey, &Queued)> {
        let key = self.queued_of(peer).next()?;
        if let Phase::Queued(queued) = self.phase(key)? { Some((key, queued)) } else { None }
    }

    /// One that waited was sent. Returns its streams.
    pub(crate) fn sends(&mut self, key: CallKey, call: SentCall) -> Option<Rc<Streams>> {
        let waiting = self.waiting.get_mut(key)?;
        let before = std::mem::replace(&mut waiting.phase, Phase::Sent(call));
        let streams = waiting.streams.clone();
        self.leaves(&before);
        self.has_slot(key, call.id);
        streams
    }

    /// Those of this peer end so.
    pub(crate) fn end_queue(&mut self, peer: PeerKey, error: impl Fn() -> CallError<Infallible>) -> Vec<Ended> {
        let all: Vec<_> = self.queued_of(peer).collect();
        all.into_iter().map(|key| self.end(key, || Ending::NoAnswer(error()))).collect()
    }
}
