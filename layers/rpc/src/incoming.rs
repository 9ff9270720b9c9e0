//! A call that has arrived, for the dispatch that [`service`](crate::service) generates.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use am_api::{CallId, Connection, Message, Token};

use crate::bytes::Bytes;
use crate::codec::{Decode, DecodeError, Encode, Writer, from_bytes, write_into};
use crate::context::Context;
use crate::control::Cancelled;
use crate::outbox::Parcel;
use crate::runtime::Runtime;
use crate::spans::{self, Span};
use crate::statistics::Tally;
use crate::status::{RESULT, Status};
use crate::stream::{CallStreams, Posts, Streams};
use crate::tasks::{MAX_TASKS, Place, TaskPool};

/// Up to here every peer accepts a result.
const ALWAYS_ACCEPTED: usize = 64;

/// A call that has arrived. It is answered once.
#[must_use = "a call is answered once"]
pub struct Incoming<'a> {
    runtime: &'a Rc<Runtime>,
    tally: &'a Rc<Tally>,
    message: Message<'a, ()>,
    token: Token,
    times: Times,
}

/// When a call has begun, and until when it has to be answered.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) begun: Duration,
    pub(crate) due: Duration,
}

/// What a method returned: `Result<V, E>`, or [`Returned`] for a method without an error.
pub trait MethodResult {
    /// Whether it is a value.
    fn is_value(&self) -> bool;
    /// The bytes of the value or of the error.
    fn size(&self) -> usize;
    /// Write them.
    fn encode(&self, to: &mut Writer<'_>);
}

/// What a method without an error returned.
#[derive(Debug)]
pub struct Returned<V>(pub V);

impl<V: Encode> MethodResult for Returned<V> {
    #[inline]
    fn is_value(&self) -> bool {
        true
    }

    #[inline]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        self.0.encode(to);
    }
}

impl<V: Encode, E: Encode> MethodResult for Result<V, E> {
    #[inline]
    fn is_value(&self) -> bool {
        self.is_ok()
    }

    #[inline]
    fn size(&self) -> usize {
        match self {
            Ok(value) => value.size(),
            Err(error) => error.size(),
        }
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        match self {
            Ok(value) => value.encode(to),
            Err(error) => error.encode(to),
        }
    }
}

/// Write a result into its place. Returns how many bytes count: none of one that its codec could not write.
fn write(result: &impl MethodResult, place: &mut [u8]) -> usize {
    if write_into(place, |to| result.encode(to)).is_ok() { place.len() } else { 0 }
}

/// The arguments of a call, after its message was handled.
#[derive(Debug)]
pub struct Arguments(Bytes);

impl Arguments {
    /// The arguments, borrowed from here.
    ///
    /// # Errors
    /// The bytes are no arguments of this method.
    pub fn decode<'a, A: Decode<'a>>(&'a self) -> Result<A, DecodeError> {
        from_bytes(&self.0)
    }
}

impl<'a> Incoming<'a> {
    #[inline]
    pub(crate) fn new(
        runtime: &'a Rc<Runtime>,
        tally: &'a Rc<Tally>,
        message: Message<'a, ()>,
        token: Token,
        times: Times,
    ) -> Incoming<'a> {
        Incoming { runtime, tally, message, token, times }
    }

    /// The arguments, borrowed from the frame.
    ///
    /// # Errors
    /// The bytes are no arguments of this method.
    #[inline]
    pub fn arguments<A: Decode<'a>>(&self) -> Result<A, DecodeError> {
        from_bytes(self.message.payload())
    }

    /// The arguments made no sense.
    #[cold]
    pub fn malformed(self) {
        self.end(Status::Malformed);
    }

    fn span(&self) -> Span {
        let Tally { service, method, .. } = **self.tally;
        spans::serve(service, method, || self.runtime.sender.peer(self.message.from()))
    }

    /// Run a method to completion.
    #[inline]
    pub fn inline<R: MethodResult>(self, run: impl FnOnce(&Context) -> R) {
        let Incoming { runtime, message, times: Times { due, .. }, .. } = &self;
        let context = Context::new(runtime, message.from(), *due, None);
        runtime.due.set(Some(*due));
        let span = self.span();
        let result = catch_unwind(AssertUnwindSafe(|| span.in_scope(|| run(&context))));
        runtime.due.set(None);
        match result {
            Ok(result) => self.answer(&result),
            Err(_) => self.end(Status::Panicked),
        }
    }

    /// Run a method that may wait: poll it once. If it is not ready, it becomes a task, and its caller gets the result later.
    pub fn run<F, R>(self, pool: &TaskPool, make: impl FnOnce(Arguments, Context) -> F)
    where
        F: Future<Output = Result<R, DecodeError>> + 'static,
        R: MethodResult + 'static,
    {
        if let Err(status) = self.admit() {
            return self.end(status);
        }
        let runtime = self.runtime;
        let mut place = pool.take::<F>();
        let context = Context::new(runtime, self.message.from(), self.times.due, Some(place.control.clone()));
        place.put(make(self.keep_arguments(), context));
        let span = self.span();
        // A task is polled again by its executor, so this poll need not wake it.
        match poll_guarded((runtime, &span), &mut place, self.times.due, &mut PollContext::from_waker(Waker::noop())) {
            Poll::Ready(result) => {
                match &result {
                    Ok(Ok(result)) => self.answer(result),
                    Ok(Err(_)) => self.end(Status::Malformed),
                    Err(Panicked) => self.end(Status::Panicked),
                }
                pool.give_back(place);
            }
            Poll::Pending => self.becomes_task(place, span),
        }
    }

    /// Run a method with streams: as a task, because its items and its result have one order.
    pub fn stream<F, R>(self, pool: &TaskPool, make: impl FnOnce(Arguments, Context, &CallStreams) -> F)
    where
        F: Future<Output = Result<R, DecodeError>> + 'static,
        R: MethodResult + 'static,
    {
        if let Err(status) = self.admit() {
            return self.end(status);
        }
        let (runtime, from, id) = (self.runtime, self.message.from(), self.token.call_id());
        let mut place = pool.take::<F>();
        let context = Context::new(runtime, from, self.times.due, Some(place.control.clone()));
        let streams = CallStreams { streams: Streams::new(), posts: runtime.clone() };
        runtime.streams.add(&**runtime, (from, id, false), &streams.streams);
        place.put(make(self.keep_arguments(), context, &streams));
        let span = self.span();
        self.becomes_task(place, span);
    }

    /// Whether the call may become a task.
    fn admit(&self) -> Result<(), Status> {
        let (tasks, from) = (&self.runtime.tasks, self.message.from());
        // No caller uses an id twice.
        if tasks.len() > 0 && tasks.has((from, self.token.call_id())) {
            return Err(Status::Malformed);
        }
        if tasks.len() >= MAX_TASKS && !tasks.has_room(from) {
            return Err(Status::Busy);
        }
        Ok(())
    }

    fn keep_arguments(&self) -> Arguments {
        let (from, words) = (self.message.from(), self.message.words().len());
        let in_frame = self.runtime.sender.frame_payload(from, words).unwrap_or(0);
        Arguments(Bytes::keep_long(&self.message, in_frame))
    }

    fn becomes_task<F, R>(self, place: Box<Place<F>>, span: Span)
    where
        F: Future<Output = Result<R, DecodeError>> + 'static,
        R: MethodResult + 'static,
    {
        let Incoming { runtime, tally, message, token, times } = self;
        let key = (message.from(), token.call_id());
        runtime.begin_task(key, place.control.clone(), times.due);
        tally.begins_task();
        if token.answer(&[Status::Running as u64], b"").is_err() {
            place.control.cancel(Cancelled::Disconnected);
        }
        let (runtime, tally) = (runtime.clone(), tally.clone());
        runtime.clone().tasks.spawn(Box::pin(CallTask { runtime, tally, span, place, key, times }));
    }

    /// Answer with this result, written into the frame that leaves.
    #[inline]
    fn answer(self, result: &impl MethodResult) {
        let bytes = result.size();
        if bytes > ALWAYS_ACCEPTED && bytes > self.token.max_payload() {
            return self.end(Status::TooLong);
        }
        let status = if result.is_value() { Status::Value } else { Status::Error };
        // A caller that is gone needs no answer.
        _ = self.token.answer_with(&[status as u64], bytes, |place| write(result, place));
        self.tally.ended(status, self.runtime.now_again().saturating_sub(self.times.begun));
    }

    #[cold]
    fn end(self, status: Status) {
        _ = self.token.answer(&[status as u64], b"");
        self.tally.ended(status, self.runtime.now_again().saturating_sub(self.times.begun));
    }
}

struct Panicked;

fn poll_guarded<F: Future>(
    (runtime, span): (&Runtime, &Span),
    place: &mut Place<F>,
    due: Duration,
    context: &mut PollContext<'_>,
) -> Poll<Result<F::Output, Panicked>> {
    runtime.due.set(Some(due));
    let polled = catch_unwind(AssertUnwindSafe(|| span.in_scope(|| place.poll(context))));
    runtime.due.set(None);
    match polled {
        Ok(polled) => polled.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    }
}

/// A call that was not ready at once.
struct CallTask<F> {
    runtime: Rc<Runtime>,
    tally: Rc<Tally>,
    span: Span,
    place: Box<Place<F>>,
    key: (Connection, CallId),
    times: Times,
}

impl<F, R> Future for CallTask<F>
where
    F: Future<Output = Result<R, DecodeError>>,
    R: MethodResult,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<()> {
        let CallTask { runtime, tally, span, place, key, times } = self.get_mut();
        let Poll::Ready(result) = poll_guarded((runtime, span), place, times.due, context) else {
            return Poll::Pending;
        };
        let to = key.0;
        let (status, payload) = match &result {
            Ok(Ok(result)) => {
                let bytes = result.size();
                if bytes > runtime.sender.max_payload(to).unwrap_or(0).max(ALWAYS_ACCEPTED) {
                    (Status::TooLong, vec![])
                } else {
                    let mut payload = vec![0; bytes];
                    let length = write(result, &mut payload);
                    payload.truncate(length);
                    (if result.is_value() { Status::Value } else { Status::Error }, payload)
                }
            }
            Ok(Err(_)) => (Status::Malformed, vec![]),
            Err(Panicked) => (Status::Panicked, vec![]),
        };
        tally.ended(status, runtime.sender.time().saturating_sub(times.begun));
        runtime.tasks.remove(*key);
        runtime.streams.end((key.0, key.1, false));
        if place.control.cancelled().is_none() {
            let words = [key.1.0, status as u64];
            runtime.post(to, Parcel { handler: RESULT, words, payload });
        }
        Poll::Ready(())
    }
}

impl<F> Drop for CallTask<F> {
    fn drop(&mut self) {
        self.tally.ends_task();
        self.runtime.tasks.remove(self.key);
        self.runtime.streams.end((self.key.0, self.key.1, false));
    }
}
