//! A call that has arrived, for the dispatch that [`service`](crate::service) generates.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use am_api::{Message, Token};

use crate::bytes::Bytes;
use crate::codec::{Decode, DecodeError, Encode, Writer, from_bytes, sure, writing};
use crate::context::Context;
use crate::control::Cancelled;
use crate::outbox::Parcel;
use crate::runtime::{Runtime, nanoseconds};
use crate::spans::{self, Span};
use crate::statistics::Tally;
use crate::status::{RESULT, SentCall, Status};
use crate::stream::{CallStreams, Posts, StreamKey, Streams};
use crate::tasks::{MAX_TASK_BYTES, MAX_TASKS, Place, TaskPool};

/// Up to here every peer accepts a result.
const ALWAYS_ACCEPTED: usize = 64;

/// A call that has arrived. It is answered once.
#[must_use = "a call is answered once"]
pub struct Incoming<'a> {
    runtime: &'a Rc<Runtime>,
    tally: &'a Rc<Tally>,
    message: &'a Message<'a, ()>,
    token: Token,
    /// Until when it has to be answered, in nanoseconds.
    due: u64,
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

#[inline]
fn status_of(result: &impl MethodResult) -> Status {
    if result.is_value() { Status::Value } else { Status::Error }
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
        message: &'a Message<'a, ()>,
        token: Token,
        due: u64,
    ) -> Incoming<'a> {
        Incoming { runtime, tally, message, token, due }
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

    /// The arguments, borrowed from the message.
    ///
    /// # Errors
    /// The bytes are no arguments of this method.
    #[inline]
    pub fn decode<'b, A: Decode<'b>>(&'b self) -> Result<A, DecodeError> {
        from_bytes(self.message.payload())
    }

    /// For a method that takes it.
    #[inline]
    pub fn context(&self) -> Context {
        Context::new(self.runtime, self.message.from(), Duration::from_nanos(self.due), None)
    }

    /// Run a method to completion.
    #[inline]
    pub fn inline<R: MethodResult>(self, run: impl FnOnce(&Incoming<'_>) -> Result<R, DecodeError>) {
        let outer = self.runtime.due.replace(self.due);
        let span = self.span();
        let result = catch_unwind(AssertUnwindSafe(|| span.in_scope(|| run(&self))));
        self.runtime.due.set(outer);
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
        let context =
            Context::new(runtime, self.message.from(), Duration::from_nanos(self.due), Some(place.control.clone()));
        place.put(make(self.keep_arguments(), context));
        let span = self.span();
        // A task is polled again by its executor, so this poll need not wake it.
        match poll_guarded((runtime, &span), &mut place, self.due, &mut PollContext::from_waker(Waker::noop())) {
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
        let (runtime, call) = (self.runtime, self.call());
        let mut place = pool.take::<F>();
        let context = Context::new(runtime, call.on, Duration::from_nanos(self.due), Some(place.control.clone()));
        let streams = CallStreams { streams: Rc::<Streams>::default(), posts: runtime.clone() };
        runtime.streams.add(&**runtime, StreamKey { call, is_own: false }, &streams.streams);
        place.put(make(self.keep_arguments(), context, &streams));
        let span = self.span();
        self.becomes_task(place, span);
    }

    fn call(&self) -> SentCall {
        SentCall { on: self.message.from(), id: self.token.call_id() }
    }

    /// Whether the call may become a task.
    fn admit(&self) -> Result<(), Status> {
        let (tasks, call) = (&self.runtime.tasks, self.call());
        // No caller uses an id twice.
        if tasks.len() > 0 && tasks.has(call) {
            return Err(Status::Malformed);
        }
        // A caller that takes no results gets no more.
        let takes_none = || {
            let (results, bytes) = self.runtime.outbox.waiting(call.on);
            results >= MAX_TASKS || bytes >= MAX_TASK_BYTES
        };
        if !tasks.has_room(call.on) || !self.runtime.outbox.is_empty() && takes_none() {
            return Err(Status::Busy);
        }
        Ok(())
    }

    fn keep_arguments(&self) -> Arguments {
        let (from, words) = (self.message.from(), self.message.words().len());
        let in_frame = self.runtime.sender.frame_payload(from, words).unwrap_or(0);
        Arguments(Bytes::keep_long(self.message, in_frame))
    }

    fn becomes_task<F, R>(self, place: Box<Place<F>>, span: Span)
    where
        F: Future<Output = Result<R, DecodeError>> + 'static,
        R: MethodResult + 'static,
    {
        let call = self.call();
        let Incoming { runtime, tally, message, token, due } = self;
        runtime.begin_task(call, place.control.clone(), Duration::from_nanos(due), message.payload().len());
        tally.begins_task();
        // A call that had arrived is handled after the event that its connection has ended.
        if token.answer(&[Status::Running as u64], b"").is_err() || !runtime.sender.is_open(call.on) {
            place.control.cancel(Cancelled::Disconnected);
            runtime.streams.end(StreamKey { call, is_own: false });
        }
        let (begun, runtime, tally) = (runtime.now(), runtime.clone(), tally.clone());
        let task = CallTask { runtime: runtime.clone(), tally, span, place, call, begun, due, is_over: false };
        runtime.tasks.spawn(Box::pin(task));
    }

    /// Answer with this result.
    #[inline]
    fn answer(self, result: &impl MethodResult) {
        match sure(&Body(result)) {
            Ok(body) => self.answer_with(status_of(result), &body),
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
        self.tally.ended(status, self.runtime.took());
    }

    #[cold]
    fn end(self, status: Status) {
        _ = self.token.answer(&[status as u64], b"");
        self.tally.ended(status, self.runtime.took());
    }
}

struct Panicked;

fn poll_guarded<F: Future>(
    (runtime, span): (&Runtime, &Span),
    place: &mut Place<F>,
    due: u64,
    context: &mut PollContext<'_>,
) -> Poll<Result<F::Output, Panicked>> {
    let outer = runtime.due.replace(due);
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
    call: SentCall,
    begun: u64,
    due: u64,
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
        let polled = poll_guarded((&task.runtime, &task.span), &mut task.place, task.due, context);
        let Poll::Ready(result) = polled else {
            return Poll::Pending;
        };
        task.leave();
        task.is_over = true;
        let status = match &result {
            Ok(Ok(result)) => match sure(&Body(result)) {
                Ok(body) => task.send(status_of(result), &body),
                Err(_) => task.send(Status::Unwritten, &()),
            },
            Ok(Err(_)) => task.send(Status::Malformed, &()),
            Err(Panicked) => task.send(Status::Panicked, &()),
        };
        task.tally.ended(status, nanoseconds(task.runtime.sender.time()).saturating_sub(task.begun));
        Poll::Ready(())
    }
}

impl<F> CallTask<F> {
    /// The call runs no more.
    fn leave(&self) {
        self.runtime.tasks.remove(self.call);
        self.runtime.streams.end(StreamKey { call: self.call, is_own: false });
    }

    /// Send the result, unless nobody waits for it. Returns how it went.
    fn send(&self, status: Status, body: &impl Encode) -> Status {
        let SentCall { on, id } = self.call;
        let (bytes, most) = (body.size(), self.runtime.sender.max_payload(on).unwrap_or(0));
        if bytes > most.max(ALWAYS_ACCEPTED) {
            return self.send(Status::TooLong, &());
        }
        if self.place.control.cancelled().is_none() {
            let words = [id.0, status as u64];
            self.runtime.post(on, &Parcel { handler: RESULT, words, bytes, write: &writing(body) });
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
