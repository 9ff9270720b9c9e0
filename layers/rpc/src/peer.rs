//! The other side of calls.

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::mem::take;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, ready};
use std::time::Duration;

use am_api::Name;

use crate::bytes::Bytes;
use crate::calls::{CallKey, Called, Ending, NewCall, PeerKey};
use crate::codec::{Decode, DecodeError, Encode, encoded, from_bytes};
use crate::error::CallError;
use crate::method::ServiceInfo;
use crate::peers::HeldPeer;
use crate::retries::{Again, Budget, Retries};
use crate::runtime::Runtime;
use crate::sleep::Sleep;
use crate::spans::{self, Span};
use crate::status::Status;
use crate::stream::{CallStreams, Streams};
use crate::wakers::Place;

/// The time that a call has, unless [`Peer::within`] says another.
pub const DEFAULT_TIME: Duration = Duration::from_secs(10);

/// The longest time that a call may have.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A node whose services are called. It is connected when it is called first, and again when it is called after its connection has ended.
/// It stays on the node's thread, and is cheap to clone. Clients of services are made of it. The node stays open while there is a peer, a client or a
/// call of it. A node cannot call itself.
#[derive(Clone)]
pub struct Peer {
    runtime: Rc<Runtime>,
    held: HeldPeer,
    within: Duration,
    budget: Option<Rc<Budget>>,
}

impl Peer {
    pub(crate) fn new(runtime: Rc<Runtime>, held: HeldPeer) -> Peer {
        Peer { runtime, held, within: DEFAULT_TIME, budget: None }
    }

    /// The same peer, for calls that have this time: after it a call's outcome is [`Deadline`](CallError::Deadline), or [`Late`](CallError::Late) if
    /// it had not left. It includes the time of the set-up, which fails by itself if the peer does not answer
    /// ([`am_api::Builder::patience`]), and the wait for room. A call that a method makes has no more than what is left of that method's own.
    #[must_use]
    pub fn within(&self, time: Duration) -> Peer {
        Peer { within: time.min(LONGEST), ..self.clone() }
    }

    /// The same peer, for calls that are sent again if their method is marked `#[idempotent]` and they may not have run, or not to the end. All
    /// clones of this peer have one budget.
    #[must_use]
    pub fn retrying(&self, retries: Retries) -> Peer {
        Peer { budget: Some(Budget::new(retries)), ..self.clone() }
    }

    /// Wait until no call of this side waits for room at the peer, or for its connection: a program that makes calls without end waits so
    /// before each.
    pub async fn ready(&self) {
        let mut room = self.room();
        poll_fn(|context| room.poll(context)).await;
    }

    pub(crate) fn room(&self) -> Room {
        Room { runtime: self.runtime.clone(), held: self.held.clone(), place: None }
    }

    /// Call a method: for the client that [`service`](crate::service) generates.
    #[inline]
    #[doc(hidden)]
    pub fn call<V, E>(
        &self,
        service: &'static ServiceInfo,
        method: usize,
        arguments: &impl Encode,
        read: ReadResult<V, E>,
    ) -> Call<V, E> {
        self.begin(service, method, arguments, read, None)
    }

    /// Call a method with streams.
    #[doc(hidden)]
    pub fn call_with_streams<V, E>(
        &self,
        service: &'static ServiceInfo,
        method: usize,
        arguments: &impl Encode,
        read: ReadResult<V, E>,
    ) -> (Call<V, E>, CallStreams) {
        let streams = CallStreams { streams: Rc::<Streams>::default(), posts: self.runtime.clone() };
        let call = self.begin(service, method, arguments, read, Some(streams.streams.clone()));
        (call, streams)
    }

    #[inline]
    fn begin<V, E>(
        &self,
        service: &'static ServiceInfo,
        method: usize,
        arguments: &impl Encode,
        read: ReadResult<V, E>,
        streams: Option<Rc<Streams>>,
    ) -> Call<V, E> {
        let called = Called { service, method: &service.methods[method] };
        let new = NewCall { peer: self.held.key, method: called.method.id, within: self.within, streams };
        let (key, again) = match &self.budget {
            Some(budget) if called.method.is_idempotent => self.begin_again(new, arguments, budget),
            _ => (self.runtime.call(new, arguments), None),
        };
        let (runtime, state) = (self.runtime.clone(), CallState::Begun(key));
        let of = (self.held.key, called);
        Call { runtime, of, state, again, read, span: spans::call(called) }
    }

    /// Begin a call that may be sent again.
    #[cold]
    fn begin_again(&self, new: NewCall, arguments: &impl Encode, budget: &Rc<Budget>) -> (CallKey, Option<Box<Again>>) {
        let due = self.runtime.sender.time() + self.runtime.at_most(self.within);
        match encoded(arguments).map(|arguments| Again::new(self.held.clone(), arguments, due, budget)) {
            Ok(again) => (self.runtime.call(new, &again.arguments), Some(again)),
            Err(error) => (self.runtime.fail(new.streams, CallError::Unencodable(error)), None),
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("within", &self.within).finish_non_exhaustive()
    }
}

/// Waits until no call waits for room at a peer.
pub(crate) struct Room {
    runtime: Rc<Runtime>,
    held: HeldPeer,
    place: Place,
}

impl Room {
    pub(crate) fn poll(&mut self, context: &mut PollContext<'_>) -> Poll<()> {
        self.runtime.poll_room(self.held.key, &mut self.place, context.waker())
    }
}

/// A waiter of its own.
impl Clone for Room {
    fn clone(&self) -> Room {
        Room { runtime: self.runtime.clone(), held: self.held.clone(), place: None }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.runtime.leave_room(self.held.key, &mut self.place);
    }
}

/// How the bytes of an answer become the outcome of a call.
#[doc(hidden)]
pub type ReadResult<V, E> = fn(&mut Reply) -> Result<V, CallError<E>>;

/// The answer to a call, before it is read.
#[doc(hidden)]
#[derive(Debug)]
pub struct Reply {
    called: Called,
    ending: Ending,
}

impl Reply {
    /// Of a method without an error.
    ///
    /// # Errors
    /// The outcome is no value.
    #[doc(hidden)]
    pub fn value<V: for<'a> Decode<'a>>(&mut self) -> Result<V, CallError<Infallible>> {
        match &mut self.ending {
            Ending::Answer(Status::Value, bytes) => from_bytes(bytes).map_err(CallError::MalformedResult),
            ending => Err(take(ending).into_error(self.called)),
        }
    }

    /// Of a method that returns a `Result`.
    ///
    /// # Errors
    /// The outcome is no value.
    #[doc(hidden)]
    pub fn result<V, E>(&mut self) -> Result<V, CallError<E>>
    where
        V: for<'a> Decode<'a>,
        E: for<'a> Decode<'a>,
    {
        match &mut self.ending {
            Ending::Answer(Status::Value, bytes) => from_bytes(bytes).map_err(CallError::MalformedResult),
            Ending::Answer(Status::Error, bytes) => Err(read_error(bytes)),
            ending => Err(take(ending).into_error(self.called)),
        }
    }

    /// Of a method without an error that returns references.
    ///
    /// # Errors
    /// The outcome is no value.
    #[doc(hidden)]
    pub fn view<B: Borrowed>(&mut self) -> Result<View<B>, CallError<Infallible>> {
        match &mut self.ending {
            Ending::Answer(Status::Value, bytes) => View::new(take(bytes)).map_err(CallError::MalformedResult),
            ending => Err(take(ending).into_error(self.called)),
        }
    }

    /// Of a method that returns a `Result` of references.
    ///
    /// # Errors
    /// The outcome is no value.
    #[doc(hidden)]
    pub fn view_result<B: Borrowed, E: for<'a> Decode<'a>>(&mut self) -> Result<View<B>, CallError<E>> {
        match &mut self.ending {
            Ending::Answer(Status::Value, bytes) => View::new(take(bytes)).map_err(CallError::MalformedResult),
            Ending::Answer(Status::Error, bytes) => Err(read_error(bytes)),
            ending => Err(take(ending).into_error(self.called)),
        }
    }
}

fn read_error<E: for<'a> Decode<'a>>(bytes: &[u8]) -> CallError<E> {
    match from_bytes(bytes) {
        Ok(error) => CallError::Service(error),
        Err(error) => CallError::MalformedResult(error),
    }
}

/// The result of a method that returns references, for every lifetime: [`service`](crate::service) makes one for each.
pub trait Borrowed {
    /// The result that borrows from this long.
    type Of<'a>: Decode<'a>;
}

/// A result that borrows from the frame in which it arrived. The server has one credit less until it is dropped.
#[derive(Debug)]
pub struct View<B> {
    bytes: Bytes,
    of: PhantomData<fn() -> B>,
}

impl<B: Borrowed> View<B> {
    fn new(bytes: Bytes) -> Result<View<B>, DecodeError> {
        from_bytes::<B::Of<'_>>(&bytes)?;
        Ok(View { bytes, of: PhantomData })
    }

    /// The result.
    pub fn get(&self) -> B::Of<'_> {
        from_bytes(&self.bytes).expect("it was read when it arrived")
    }
}

/// A call: the future of its outcome. It was begun already, and any executor on the node's thread can poll it. Dropping it cancels
/// the call: the server is told, and a method that is `async` may see it.
#[must_use = "the outcome of a call is in its future; dropping it cancels the call"]
pub struct Call<V, E = Infallible> {
    runtime: Rc<Runtime>,
    of: (PeerKey, Called),
    state: CallState,
    again: Option<Box<Again>>,
    read: ReadResult<V, E>,
    span: Span,
}

enum CallState {
    Begun(CallKey),
    /// It is sent again after a pause.
    Pausing(Box<Sleep>),
    Over,
}

impl<V: 'static, E: 'static> Call<V, E> {
    /// Run this with the outcome, in the turn that brings it, and return at once. It runs only while the [`Rpc`](crate::Rpc) is polled, and is dropped with
    /// it: [`shut_down`](crate::Rpc::shut_down) waits for it.
    pub fn on_outcome(mut self, run: impl FnOnce(Result<V, CallError<E>>) + 'static) {
        let runtime = self.runtime.clone();
        match self.state {
            CallState::Begun(key) if self.again.is_none() && runtime.has_no_outcome(key) => {
                let called = self.of.1;
                runtime.then(key, Box::new(move |ending| run(self.over(&mut Reply { called, ending }))));
            }
            _ => runtime.tasks.spawn(Box::pin(async move { run(self.await) })),
        }
    }
}

impl<V, E> Call<V, E> {
    /// What it calls: the method, and the node.
    pub(crate) fn called(&self) -> (Called, Option<Name>) {
        let (peer, called) = self.of;
        (called, self.runtime.node_of(peer))
    }
}

impl<V, E> Future for Call<V, E> {
    type Output = Result<V, CallError<E>>;

    /// # Panics
    /// If it has returned its outcome before.
    fn poll(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<Self::Output> {
        let call = &mut *self;
        loop {
            match &mut call.state {
                CallState::Begun(key) => {
                    let mut reply = Reply { called: call.of.1, ending: Ending::default() };
                    if !call.runtime.poll_call(*key, context.waker(), &mut reply.ending) {
                        return Poll::Pending;
                    }
                    if let Some(again) = &mut call.again {
                        if let Some(pause) = again.pause(&reply.ending, call.runtime.sender.time()) {
                            call.state = CallState::Pausing(Box::new(Sleep::new(&call.runtime, pause)));
                            continue;
                        }
                        again.or_earlier(&mut reply.ending);
                    }
                    return Poll::Ready(call.over(&mut reply));
                }
                CallState::Pausing(sleep) => {
                    ready!(Pin::new(&mut **sleep).poll(context));
                    call.state = call.send_again();
                }
                CallState::Over => panic!("a call was polled after its outcome"),
            }
        }
    }
}

impl<V, E> Call<V, E> {
    /// The call is over.
    #[inline]
    fn over(&mut self, reply: &mut Reply) -> Result<V, CallError<E>> {
        self.state = CallState::Over;
        spans::ended(&self.span, &reply.ending);
        (self.read)(reply)
    }

    #[cold]
    fn send_again(&self) -> CallState {
        let Some(again) = &self.again else { return CallState::Over };
        let within = again.due.saturating_sub(self.runtime.sender.time());
        let new = NewCall { peer: again.peer.key, method: self.of.1.method.id, within, streams: None };
        CallState::Begun(self.runtime.call(new, &again.arguments))
    }
}

impl<V, E> Drop for Call<V, E> {
    fn drop(&mut self) {
        if let CallState::Begun(key) = self.state {
            self.runtime.drop_call(key);
        }
    }
}

impl<V, E> fmt::Debug for Call<V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
