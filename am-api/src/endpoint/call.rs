//! Calls: requests with a deadline. Each call has one outcome, and one handler gets it.
//!
//! ```text
//!   try_call(to, SQUARE, words, .., within) ── id, words ──▶ on_request(SQUARE)
//!   on_outcome(SQUARE)   an answer            ◀── id, .. ────── token.answer(..)
//!                        Returned, Ended      the connection ended first
//!                        TimedOut             the deadline passed
//! ```

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use am_proto::{FlowId, ReturnReason, Time};
use am_wire::MAX_WORDS;
use derive_where::derive_where;
use slotmap::{DefaultKey, Key, KeyData, SlotMap};

use crate::{CallId, Connection, Endpoint, HandlerId, Message, RequestError, Returned};

/// The outcome of a call. [`Endpoint::on_outcome`]'s handler gets one for each call.
#[derive_where(Debug)]
pub struct Outcome<'a, S> {
    /// The call's id, as [`Endpoint::try_call`] returned it.
    pub id: CallId,
    /// The connection that the call was sent on.
    pub to: Connection,
    /// The handler that the call named.
    pub handler: HandlerId,
    /// The [time](Endpoint::time) until which it waited for its answer.
    pub due: Duration,
    /// The answer, or the reason why there is none.
    pub result: Result<Message<'a, S>, CallError<'a, S>>,
    /// The endpoint: handlers send through it.
    #[derive_where(skip)]
    pub endpoint: &'a Endpoint<S>,
}

/// Why a call has no answer.
#[derive_where(Debug)]
pub enum CallError<'a, S> {
    /// The call's request could not be delivered. Its [fate](Returned::fate) says whether it may have been handled.
    Returned(Returned<'a, S>),
    /// The peer's node received the request, and the connection ended without an answer. The request may have been handled.
    Ended(ReturnReason),
    /// The deadline passed. The request may have been handled, or may be handled later. An answer that arrives later is dropped and counted
    /// (`late_answers`). A program that sends the call again needs a handler that may run twice.
    TimedOut,
}

impl<S> fmt::Display for CallError<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Returned(returned) => write!(f, "it came back: {}", returned.reason),
            CallError::Ended(reason) => write!(f, "no answer, and the connection ended: {reason}"),
            CallError::TimedOut => f.write_str("no answer in time"),
        }
    }
}

impl<S> Endpoint<S> {
    /// A [`try_request`](Endpoint::try_request) with one outcome within this time: an answer, or a [`CallError`].
    /// [`on_outcome`](Endpoint::on_outcome)'s handler gets it.
    ///
    /// The first word of the request is the id that this returns, and the given words, at most 3, follow it. The peer's handler
    /// answers with [`Token::answer`](crate::Token::answer), or replies to the same handler id and repeats the first word.
    ///
    /// ```
    /// use std::time::Duration;
    /// use am_api::{Connection, Endpoint, HandlerId, Request, RequestError};
    ///
    /// const SQUARE: HandlerId = HandlerId(0);
    ///
    /// fn serve(endpoint: &mut Endpoint<()>) {
    ///     endpoint.on_request(SQUARE, |(), Request { message, token }| {
    ///         let number = message.word(1);
    ///         token.answer(&[number * number], b"").unwrap_or_else(|error| eprintln!("{error}"));
    ///     });
    /// }
    ///
    /// fn listen(endpoint: &mut Endpoint<Vec<String>>) {
    ///     endpoint.on_outcome(SQUARE, |log, outcome| match outcome.result {
    ///         Ok(answer) => log.push(format!("{}: {}", outcome.id.0, answer.word(1))),
    ///         Err(error) => log.push(format!("{}: {error}", outcome.id.0)),
    ///     });
    /// }
    ///
    /// fn ask(endpoint: &Endpoint<Vec<String>>, to: Connection) -> Result<(), RequestError> {
    ///     endpoint.try_call(to, SQUARE, &[12], b"", Duration::from_millis(200)).map(|_id| ())
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`Endpoint::try_request`], which also says how to wait for room. The call was not sent then, and has no outcome.
    pub fn try_call(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &[u8],
        within: Duration,
    ) -> Result<CallId, RequestError> {
        self.call_with(to, handler, words, within, |words| self.try_request(to, handler, words, payload))
    }

    /// A call whose request `send` sends, with these words.
    #[inline(always)]
    pub(crate) fn call_with(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        within: Duration,
        send: impl FnOnce(&[u64]) -> Result<(), RequestError>,
    ) -> Result<CallId, RequestError> {
        let mut all = [0; MAX_WORDS];
        let (count, most) = (words.len() + 1, MAX_WORDS - 1);
        let too_many = RequestError::TooManyWords { count: words.len(), most };
        all.get_mut(1..count).ok_or(too_many)?.copy_from_slice(words);
        let due = self.node.borrow().clock.now() + within;
        let mut calls = self.shared.calls.borrow_mut();
        let id = calls.add(Call { flow: to.0, handler, due });
        all[0] = id.0;
        send(&all[..count]).inspect_err(|_| _ = calls.take(id, |_| true))?;
        Ok(id)
    }

    /// Run this for the outcome of each [`try_call`](Endpoint::try_call) that names `handler`. It replaces
    /// [`on_reply`](Endpoint::on_reply) for that handler. A reply that answers no waiting call is dropped and counted
    /// (`late_answers`). A call that returns after its deadline goes to [`on_returned`](Endpoint::on_returned).
    pub fn on_outcome(&mut self, handler: HandlerId, run: impl FnMut(&mut S, Outcome<'_, S>) + 'static) {
        let for_answers = Rc::new(RefCell::new(run));
        let for_errors = for_answers.clone();
        self.on_reply(handler, move |state, answer| {
            let (id, to, endpoint) = (CallId(answer.word(0)), answer.from(), answer.endpoint());
            let call = endpoint.shared.calls.borrow_mut().take(id, |call| call.flow == to.0);
            if let Some(Call { due, .. }) = call {
                let due = due - Time::default();
                for_answers.borrow_mut()(state, Outcome { id, to, handler, due, result: Ok(answer), endpoint });
            } else {
                endpoint.node.borrow_mut().tally.late_answers += 1;
            }
        });
        let run = move |state: &mut S, outcome: Outcome<'_, S>| for_errors.borrow_mut()(state, outcome);
        self.node.borrow_mut().events.add(self.id);
        self.handlers.get_mut().outcomes.set(handler, Box::new(run));
    }

    /// A connection ended: end the calls on it.
    pub(crate) fn end_calls(&self, on: Connection, reason: ReturnReason) {
        let now = self.node.borrow().engine.core().now();
        self.shared.calls.borrow_mut().ended(on.0, reason, now);
    }

    /// A request of this endpoint returned. If it is a waiting call, remove the call. Returns when that was due.
    pub(crate) fn take_returned_call(&self, request: &Message<'_, S>) -> Option<Duration> {
        let (flow, handler) = (request.from().0, request.handler());
        let is_it = |call: &Call| (call.flow, call.handler) == (flow, handler);
        let call = self.shared.calls.borrow_mut().take(CallId(request.word(0)), is_it)?;
        Some(call.due - Time::default())
    }

    /// The next call without an answer: its deadline passed, or its connection ended and no more of its messages can arrive.
    pub(crate) fn next_unanswered(&self) -> Option<Outcome<'_, S>> {
        let (mut calls, mut node) = (self.shared.calls.borrow_mut(), self.node.borrow_mut());
        if calls.next_check > node.engine.core().now() {
            return None;
        }
        let has_message =
            calls.ended.last().is_some_and(|&(flow, _)| node.bulk.message_bytes_on(flow) > 0 || node.bulk.has_news());
        let core = node.core();
        let (id, call, error) = match calls.pop_due(core.now()) {
            Some((id, call)) => (id, call, CallError::TimedOut),
            None => {
                let &(flow, reason) = calls.ended.last()?;
                if has_message
                    || core.has_unacknowledged(flow)
                    || core.has_returned_to(self.id)
                    || core.has_deliveries()
                {
                    calls.next_check = calls.next_check.min(core.now() + RECHECK);
                    return None;
                }
                let (id, call) = calls.take_on(flow)?;
                (id, call, CallError::Ended(reason))
            }
        };
        let Call { flow, handler, due } = call;
        Some(Outcome {
            id,
            to: Connection(flow),
            handler,
            due: due - Time::default(),
            result: Err(error),
            endpoint: self,
        })
    }
}

/// A call that waits for its outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    flow: FlowId,
    handler: HandlerId,
    due: Time,
}

/// The waiting calls of an endpoint. A call allocates only if more calls wait than ever before.
#[derive(Debug)]
pub(crate) struct Calls {
    waiting: SlotMap<DefaultKey, Call>,
    /// The deadlines of the waiting calls but the latest, and of some that already had their outcome (stale entries).
    due: BinaryHeap<Reverse<(Time, DefaultKey)>>,
    /// The latest calls, whose deadlines are sorted once one may have passed: by then nearly all calls have their answers. While it is full,
    /// there are others.
    latest: Vec<DefaultKey>,
    /// When to check for calls without an answer.
    next_check: Time,
    /// Connections that ended while calls on them waited.
    ended: Vec<(FlowId, ReturnReason)>,
}

/// How many more stale entries there may be than places for calls.
const MAX_STALE: usize = 64;

/// How often to check whether messages of an ended connection may still return.
const RECHECK: Duration = Duration::from_millis(1);

impl Default for Calls {
    fn default() -> Self {
        let (waiting, due, latest, ended) = Default::default();
        Calls { waiting, due, latest, next_check: Time::NEVER, ended }
    }
}

impl Calls {
    #[inline]
    fn add(&mut self, call: Call) -> CallId {
        self.next_check = self.next_check.min(call.due);
        let key = self.waiting.insert(call);
        if self.latest.len() < self.latest.capacity() {
            self.latest.push(key);
        }
        CallId(key.data().as_ffi())
    }

    /// Sort the deadlines of the latest calls into the others. Those of all waiting calls are sorted anew after at least as many calls.
    fn sort_latest(&mut self) {
        let Calls { waiting, due, latest, .. } = self;
        let entry = |(key, call): (DefaultKey, &Call)| Reverse((call.due, key));
        if latest.len() == latest.capacity() || due.len() > 2 * waiting.capacity() + MAX_STALE {
            due.clear();
            due.extend(waiting.iter().map(entry));
        } else {
            due.extend(latest.iter().filter_map(|key| Some(entry((*key, waiting.get(*key)?)))));
        }
        latest.clear();
        latest.reserve(waiting.capacity() + MAX_STALE);
    }

    /// Remove this call, if it waits and `is_it` is true for it.
    fn take(&mut self, CallId(id): CallId, is_it: impl Fn(&Call) -> bool) -> Option<Call> {
        let key = DefaultKey::from(KeyData::from_ffi(id));
        self.waiting.get(key).filter(|call| is_it(call))?;
        self.waiting.remove(key)
    }

    /// When to check for calls without an answer.
    #[inline]
    pub(crate) fn next_check(&self) -> Time {
        self.next_check
    }

    /// Remove a call whose deadline has passed.
    fn pop_due(&mut self, now: Time) -> Option<(CallId, Call)> {
        self.sort_latest();
        while let Some(&Reverse((_, key))) = self.due.peek().filter(|Reverse((due, _))| *due <= now) {
            self.due.pop();
            if let Some(call) = self.waiting.remove(key) {
                return Some((CallId(key.data().as_ffi()), call));
            }
        }
        self.next_check = self.due.peek().map_or(Time::NEVER, |Reverse((due, _))| *due);
        None
    }

    /// This connection ended. Its calls end once all its messages in flight have arrived or returned.
    pub(crate) fn ended(&mut self, flow: FlowId, reason: ReturnReason, now: Time) {
        if self.waiting.values().any(|call| call.flow == flow) {
            self.ended.push((flow, reason));
            self.next_check = now;
        }
    }

    /// Remove a call on this ended connection. After the last one, forget the connection.
    fn take_on(&mut self, flow: FlowId) -> Option<(CallId, Call)> {
        let found = self.waiting.iter().find(|(_, call)| call.flow == flow).map(|(key, call)| (key, *call));
        if found.is_none() {
            self.ended.retain(|(ended, _)| *ended != flow);
        }
        if found.is_some() || !self.ended.is_empty() {
            self.next_check = Time::default();
        }
        found.map(|(key, call)| {
            self.waiting.remove(key);
            (CallId(key.data().as_ffi()), call)
        })
    }
}
