//! The calls of this side that have no outcome yet, or whose outcome was not fetched.
//!
//! ```text
//!   begin ──▶ Queued ──▶ Sent ──────────────── answer ──▶ Done ──▶ fetched
//!             no room      │                                ▲
//!             yet          └─ Running ──▶ Running ── RESULT ┘      a task of the server
//! ```
//!
//! `am-api` watches the deadline of a call that was sent, and the end of its connection. Once the server has answered that the call runs,
//! this table watches them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use am_api::{CallId, Connection};
use slotmap::{SlotMap, new_key_type};

use crate::bytes::Bytes;
use crate::codec::DecodeError;
use crate::deadlines::{Deadlines, Ticket};
use crate::error::CallError;
use crate::method::{MethodId, MethodInfo, ServiceInfo, Skew};
use crate::status::Status;
use crate::stream::{StreamTable, Streams};

new_key_type! {
    /// A call of this side.
    pub(crate) struct CallKey;
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

/// A call without an outcome, or with one that was not fetched.
pub(crate) struct Waiting {
    pub(crate) called: Called,
    pub(crate) phase: Phase,
    pub(crate) waker: Option<Waker>,
    pub(crate) streams: Option<Rc<Streams>>,
}

/// A call that is over, and those who have to hear of it once the table is not borrowed.
#[derive(Default)]
#[must_use]
pub(crate) struct Ended {
    waker: Option<Waker>,
    streams: Option<Rc<Streams>>,
}

impl Ended {
    pub(crate) fn tell(self, table: &StreamTable) {
        if let Some(streams) = self.streams {
            streams.key().into_iter().for_each(|key| table.end(key));
            streams.end();
        }
        self.waker.into_iter().for_each(Waker::wake);
    }
}

impl Waiting {
    /// It is over.
    fn ended(&mut self) -> Ended {
        Ended { waker: self.waker.take(), streams: self.streams.take() }
    }
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// There was no room, or no connection. Its arguments, and the time until which it has to be answered.
    Queued {
        arguments: Vec<u8>,
        due: Duration,
    },
    Sent(Connection, CallId),
    Running(Connection, CallId),
    Done(Ending),
}

/// So many outcomes that were not fetched keep the frames in which they arrived, and their senders' credit. Further ones are copied: a program may
/// wait for the last of its calls first.
const MAX_KEPT: usize = 16;

/// All of them.
#[derive(Default)]
pub(crate) struct Calls {
    waiting: SlotMap<CallKey, Waiting>,
    /// Of those that were sent, by the slot of their ids.
    sent: Vec<CallKey>,
    running: BTreeMap<(Connection, CallId), (CallKey, Ticket)>,
    due: Deadlines<(Connection, CallId)>,
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

    #[inline]
    pub(crate) fn add(&mut self, called: Called, phase: Phase, streams: Option<Rc<Streams>>) -> CallKey {
        self.waiting.insert(Waiting { called, phase, waker: None, streams })
    }

    pub(crate) fn get(&mut self, key: CallKey) -> Option<&mut Waiting> {
        self.waiting.get_mut(key)
    }

    /// Take the outcome of a call that has one.
    #[inline]
    pub(crate) fn fetch(&mut self, key: CallKey) -> Option<(Called, Ending)> {
        let Waiting { called, phase: Phase::Done(ending), .. } = self.waiting.remove(key)? else { return None };
        self.done -= 1;
        Some((called, ending))
    }

    /// Whether a further outcome may keep the frame in which it arrived.
    pub(crate) fn may_keep(&self) -> bool {
        self.done < MAX_KEPT
    }

    /// The program dropped it. Returns its phase.
    pub(crate) fn forget(&mut self, key: CallKey) -> Option<(Phase, Ended)> {
        let mut waiting = self.waiting.remove(key)?;
        self.done -= usize::from(matches!(waiting.phase, Phase::Done(_)));
        let ended = waiting.ended();
        Some((waiting.phase, ended))
    }

    /// It was sent as this call of the endpoint.
    #[inline]
    pub(crate) fn sent(&mut self, key: CallKey, id: CallId) {
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

    /// All calls for which `end` has an error end.
    pub(crate) fn end_all(&mut self, end: impl Fn(&Phase) -> Option<CallError<Infallible>>) -> Vec<Ended> {
        let mut all = vec![];
        for waiting in self.waiting.values_mut() {
            if let Some(error) = end(&waiting.phase) {
                waiting.phase = Phase::Done(Ending::NoAnswer(error));
                self.done += 1;
                all.push(waiting.ended());
            }
        }
        all
    }

    /// The server runs it as a task.
    pub(crate) fn runs(&mut self, key: CallKey, (to, id): (Connection, CallId), due: Duration) {
        let Some(waiting) = self.waiting.get_mut(key) else { return };
        // Its result may have come before.
        if !matches!(waiting.phase, Phase::Sent(..)) {
            return;
        }
        waiting.phase = Phase::Running(to, id);
        let ticket = self.due.add(due, (to, id));
        self.running.insert((to, id), (key, ticket));
    }

    /// The call that was sent as this one, if it has no answer yet.
    pub(crate) fn take_sent(&mut self, (to, id): (Connection, CallId)) -> Option<CallKey> {
        let key = self.key_of(id);
        let is_it = |call: &Waiting| matches!(call.phase, Phase::Sent(on, sent) if (on, sent) == (to, id));
        self.waiting.get(key).is_some_and(is_it).then_some(key)
    }

    /// Whether a call on this connection waits for its answer.
    pub(crate) fn has_sent_on(&self, connection: Connection) -> bool {
        self.waiting.values().any(|call| matches!(call.phase, Phase::Sent(on, _) if on == connection))
    }

    /// This running call ends.
    pub(crate) fn take_running(&mut self, of: (Connection, CallId)) -> Option<CallKey> {
        let (key, ticket) = self.running.remove(&of)?;
        self.due.remove(ticket);
        Some(key)
    }

    /// When the next running call is due.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.next()
    }

    /// A running call whose time is over.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<((Connection, CallId), CallKey)> {
        let of = self.due.pop(now)?;
        let (key, _) = self.running.remove(&of)?;
        Some((of, key))
    }

    /// The running calls of a connection that has ended.
    pub(crate) fn take_running_on(&mut self, connection: Connection) -> Vec<CallKey> {
        let on_it = self.running.range((connection, CallId(0))..=(connection, CallId(u64::MAX)));
        let all: Vec<_> = on_it.map(|(of, _)| *of).collect();
        all.into_iter().filter_map(|of| self.take_running(of)).collect()
    }
}
