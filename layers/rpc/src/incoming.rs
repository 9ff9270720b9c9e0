//! A call that has arrived, for the dispatch that [`service`](crate::service) generates.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use am_api::{CallId, Connection, Message, Token};

use crate::bytes::Bytes;
use crate::codec::{Decode, DecodeError, Encode, Writer, from_bytes, sure, writing};
use crate::context::Context;
use crate::control::Cancelled;
use crate::outbox::Parcel;
use crate::runtime::Runtime;
use crate::spans::{self, Span};
use crate::statistics::Tally;
use crate::status::{RESULT, Status};
use crate::stream::{CallStreams, Posts, Streams};
use crate::tasks::{MAX_TASK_BYTES, MAX_TASKS, Place, TaskPool};

/// Up to here every peer accepts a result.
const ALWAYS_ACCEPTED: usize = 64;

/// A call that has arrived. It is answered once.
#[must_use = "a call is answered once"]
pub struct Incoming<'a> {
    runtime: &'a Rc<Runtime>,
    tally: &'a Rc<Tally>,
    message: Message<'a, ()>,
    token: Token,
    timing: Timing,
}

/// When a call has begun, and until when it has to be answered.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) begun: Duration,
    pub(crate) due: Duration,
}

/// What a method returned: `Result<V, E>`, or [`Returned`] for a method without an error.
pub trait MethodResult {
    /// Whether value and error are [sure](Encode::IS_SURE).
    const IS_SURE: bool;
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
    const IS_SURE: bool = V::IS_SURE;

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
    const IS_SURE: bool = V::IS_SURE && E::IS_SURE;

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

/// The bytes of a result.
struct Body<'a, R>(&'a R);

impl<R: MethodResult> Encode for Body<'_, R> {
    const IS_SURE: bool = R::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        self.0.encode(to);
    }
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
        timing: Timing,
    ) -> Incoming<'a> {
        Incoming { runtime, tally, message, token, timing }
    }

    /// There is no such method.
    #[cold]
    pub fn malformed(self) {
        self.end(Status::Malformed);
    }

    fn span(&self) -> Span {
        let Tally { service, method, .. } = **self.tally;
        spans::serve(service, method, || self.runtime.caller(self.message.from()))
    }

    /// Run a method to completion, on these bytes of arguments.
    #[inline]
    pub fn inline<R: MethodResult>(self, run: impl FnOnce(&[u8], &Context) -> Result<R, DecodeError>) {
        let Incoming { runtime, message, timing: Timing { due, .. }, .. } = &self;
        let context = Context::new(runtime, message.from(), *due, None);
        let outer = runtime.due.replace(Some(*due));
        let span = self.span();
        let result = catch_unwind(AssertUnwindSafe(|| span.in_scope(|| run(message.payload(), &context))));
        runtime.due.set(outer);
        match result {
            Ok(Ok(result)) => self.answer(&result),
            Ok(Err(_)) => self.end(Status::Malformed),
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
        let context = Context::new(runtime, self.message.from(), self.timing.due, Some(place.control.clone()));
        place.put(make(self.keep_arguments(), context));
        let span = self.span();
        // A task is polled again by its executor, so this poll need not wake it.
        match poll_guarded((runtime, &span), &mut place, self.timing.due, &mut PollContext::from_waker(Waker::noop())) {
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
        let context = Context::new(runtime, from, self.timing.due, Some(place.control.clone()));
        let streams = CallStreams { streams: Rc::<Streams>::default(), posts: runtime.clone() };
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
        // A caller that takes no results gets no more.
        let takes_none = || {
            let (results, bytes) = self.runtime.outbox.waiting(from);
            results >= MAX_TASKS || bytes >= MAX_TASK_BYTES
        };
        if !tasks.has_room(from) || !self.runtime.outbox.is_empty() && takes_none() {
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
        let Incoming { runtime, tally, message, token, timing } = self;
        let key = (message.from(), token.call_id());
        runtime.begin_task(key, place.control.clone(), timing.due, message.payload().len());
        tally.begins_task();
        // A call that had arrived is handled after the event that its connection has ended.
        if token.answer(&[Status::Running as u64], b"").is_err() || !runtime.sender.is_open(key.0) {
            place.control.cancel(Cancelled::Disconnected);
            runtime.streams.end((key.0, key.1, false));
        }
        let (runtime, tally) = (runtime.clone(), tally.clone());
        runtime.clone().tasks.spawn(Box::pin(CallTask { runtime, tally, span, place, key, timing, is_over: false }));
    }

    /// Answer with this result.
    #[inline]
    fn answer(self, result: &impl MethodResult) {
        let status = if result.is_value() { Status::Value } else { Status::Error };
        match sure(&Body(result)) {
            Ok(None) => self.answer_with(status, &Body(result)),
            Ok(Some(encoded)) => self.answer_with(status, &encoded),
            Err(_) => self.end(Status::Unwritten),
        }
    }

    /// Answer with these bytes, written into the frame that leaves.
    #[inline]
    fn answer_with(self, status: Status, body: &impl Encode) {
        let bytes = body.size();
        if bytes > ALWAYS_ACCEPTED && bytes > self.token.max_payload() {
            return self.end(Status::TooLong);
        }
        // A caller that is gone needs no answer.
        _ = self.token.answer_with(&[status as u64], bytes, writing(body));
        self.tally.ended(status, self.runtime.now_again().saturating_sub(self.timing.begun));
    }

    #[cold]
    fn end(self, status: Status) {
        _ = self.token.answer(&[status as u64], b"");
        self.tally.ended(status, self.runtime.now_again().saturating_sub(self.timing.begun));
    }
}

struct Panicked;

fn poll_guarded<F: Future>(
    (runtime, span): (&Runtime, &Span),
    place: &mut Place<F>,
    due: Duration,
    context: &mut PollContext<'_>,
) -> Poll<Result<F::Output, Panicked>> {
    let outer = runtime.due.replace(Some(due));
    let polled = catch_unwind(AssertUnwindSafe(|| span.in_scope(|| place.poll(context))));
    runtime.due.set(outer);
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
    timing: Timing,
    is_over: bool,
}

impl<F, R> Future for CallTask<F>
where
    F: Future<Output = Result<R, DecodeError>>,
    R: MethodResult,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<()> {
        let task = self.get_mut();
        let (runtime, due) = (&task.runtime, task.timing.due);
        let Poll::Ready(result) = poll_guarded((runtime, &task.span), &mut task.place, due, context) else {
            return Poll::Pending;
        };
        task.leave();
        task.is_over = true;
        let status = match &result {
            Ok(Ok(result)) => {
                let status = if result.is_value() { Status::Value } else { Status::Error };
                match sure(&Body(result)) {
                    Ok(None) => task.send(status, &Body(result)),
                    Ok(Some(encoded)) => task.send(status, &encoded),
                    Err(_) => task.send(Status::Unwritten, &()),
                }
            }
            Ok(Err(_)) => task.send(Status::Malformed, &()),
            Err(Panicked) => task.send(Status::Panicked, &()),
        };
        task.tally.ended(status, task.runtime.sender.time().saturating_sub(task.timing.begun));
        Poll::Ready(())
    }
}

impl<F> CallTask<F> {
    /// The call runs no more.
    fn leave(&self) {
        let (from, id) = self.key;
        self.runtime.tasks.remove(self.key);
        self.runtime.streams.end((from, id, false));
    }

    /// Send the result, unless nobody waits for it. Returns how it went.
    fn send(&self, status: Status, body: &impl Encode) -> Status {
        let (to, id) = self.key;
        let (bytes, most) = (body.size(), self.runtime.sender.max_payload(to).unwrap_or(0));
        if bytes > most.max(ALWAYS_ACCEPTED) {
            return self.send(Status::TooLong, &());
        }
        if self.place.control.cancelled().is_none() {
            let words = [id.0, status as u64];
            self.runtime.post(to, &Parcel { handler: RESULT, words, bytes, write: &writing(body) });
        }
        status
    }
}

impl<F> Drop for CallTask<F> {
    fn drop(&mut self) {
        self.tally.ends_task();
        if !self.is_over {
            // The program's executor has dropped it, or the endpoint is dropped.
            self.leave();
            self.send(Status::Panicked, &());
        }
    }
}
