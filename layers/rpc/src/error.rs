//! The outcomes of a call that are no value.

use std::fmt;

use am_api::{EndpointError, NotOpen, Refusal, RequestError, ReturnReason};

use crate::codec::{DecodeError, EncodeError};
use crate::method::Skew;

/// Why a call has no value. `E` is the error of the method; [`Infallible`](std::convert::Infallible) where it has none.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError<E> {
    /// The method ran, and this is its error.
    #[error("the service's error: {0:?}")]
    Service(E),
    /// The server has no method of this name. It did not run.
    #[error("{0}")]
    UnknownMethod(Box<Skew>),
    /// The server's method has another signature. It did not run.
    #[error("{0}")]
    Mismatch(Box<Skew>),
    /// There was no answer in time. It may have run, and may still run; an `async` method is told.
    #[error("no answer in time; it may have run")]
    Deadline,
    /// Its time was over before it began: at the server, or while it waited here for a connection or for room. It did not run.
    #[error("its time was over before it left, or before its turn at the server; it did not run")]
    Late,
    /// The method panicked, or the server's executor dropped it. The server goes on.
    #[error("the method panicked")]
    Panicked,
    /// The server could not read the arguments. It did not run.
    #[error("the server could not read the arguments, though the signatures agree: build both from one version")]
    Malformed,
    /// The method ran, and its result could not be read.
    #[error("the result could not be read: {0}")]
    MalformedResult(DecodeError),
    /// The server shuts down, and begins no call.
    #[error("the server shuts down; it did not run")]
    ShuttingDown,
    /// The server runs too many calls of this connection already ([`MAX_TASKS`](crate::MAX_TASKS)), or holds too many bytes of them
    /// ([`MAX_TASK_BYTES`](crate::MAX_TASK_BYTES)). It did not run.
    #[error("the server runs too many calls of this connection, or long ones; it did not run: wait for some of them")]
    Busy,
    /// The server does not let this node call the method ([`Rpc::serve_to`](crate::Rpc::serve_to)). It did not run.
    #[error("the server does not let this node call it; it did not run")]
    Forbidden,
    /// The method ran, and its result is longer than this node accepts.
    #[error("its result is longer than this node accepts (`Builder::max_message`): get it from a region, or in pieces")]
    ResultTooLong,
    /// The peer refused the connection. It did not run.
    #[error("the peer refused the connection; it did not run: {}", NotOpen::Refused(*.0))]
    Refused(Refusal),
    /// A codec that was written by hand, or arguments that are nested too deeply: they could not be written. It did not run.
    #[error("the arguments could not be written: {0}")]
    Unencodable(EncodeError),
    /// The method ran, and its result could not be written, for the same reasons.
    #[error("its result could not be written: its codec was written by hand, or the value has too many levels")]
    UnencodableResult,
    /// The server was not reached, or left before it handled the call. It did not run.
    #[error("it did not run: {0}{hint}", hint = hint(*.0))]
    Dead(ReturnReason),
    /// The connection ended after the server had received the call. It may have run.
    #[error("it may have run: {0}")]
    Unknown(ReturnReason),
    /// The call could not be sent, and did not run.
    #[error("not sent: {0}")]
    NotSent(NotSent),
}

/// What to look at.
fn hint(why: ReturnReason) -> &'static str {
    match why {
        ReturnReason::Unreachable => {
            ": is its node running, on this network, under this name? Over udp and tcp one of the two needs the other's address"
        }
        _ => "",
    }
}

impl<E> From<NotOpen> for CallError<E> {
    fn from(why: NotOpen) -> Self {
        match why {
            NotOpen::Refused(why) => CallError::Refused(why),
            NotOpen::Dead(reason) => CallError::Dead(reason),
            NotOpen::Closed | NotOpen::Connecting => CallError::Dead(ReturnReason::Closed),
        }
    }
}

/// Why a call was not sent.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// Arguments of more bytes than a peer accepts; for more, register a region and pass its id.
    #[error(
        "{bytes} bytes of arguments, and the peer accepts {most}: pass the id of a region instead (`am_api::Endpoint::register`)"
    )]
    TooLong {
        /// Bytes of arguments.
        bytes: usize,
        /// The most bytes.
        most: usize,
    },
    /// Too many calls wait for the peer.
    #[error("{0} calls wait for this peer already: wait for some of them")]
    TooManyCalls(usize),
    /// The connection cannot be used.
    #[error("{0}")]
    Connection(&'static str),
}

/// As the other errors: programs end with the text.
impl<E: fmt::Debug> fmt::Debug for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<E> CallError<E> {
    /// Whether the method may have run. If not, the call can be sent again, whatever the method does.
    pub fn may_have_run(&self) -> bool {
        match self {
            CallError::Service(_)
            | CallError::Deadline
            | CallError::Panicked
            | CallError::ResultTooLong
            | CallError::UnencodableResult
            | CallError::MalformedResult(_)
            | CallError::Unknown(_) => true,
            CallError::UnknownMethod(_)
            | CallError::Mismatch(_)
            | CallError::Late
            | CallError::Malformed
            | CallError::ShuttingDown
            | CallError::Busy
            | CallError::Forbidden
            | CallError::Refused(_)
            | CallError::Unencodable(_)
            | CallError::Dead(_)
            | CallError::NotSent(_) => false,
        }
    }

    /// The same outcome with the service's error in another type: of a method without an error, `map_service(|never| match never {})`.
    pub fn map_service<F>(self, map: impl FnOnce(E) -> F) -> CallError<F> {
        match self {
            CallError::Service(error) => CallError::Service(map(error)),
            CallError::UnknownMethod(skew) => CallError::UnknownMethod(skew),
            CallError::Mismatch(skew) => CallError::Mismatch(skew),
            CallError::Deadline => CallError::Deadline,
            CallError::Late => CallError::Late,
            CallError::Panicked => CallError::Panicked,
            CallError::Malformed => CallError::Malformed,
            CallError::MalformedResult(error) => CallError::MalformedResult(error),
            CallError::ShuttingDown => CallError::ShuttingDown,
            CallError::Busy => CallError::Busy,
            CallError::Forbidden => CallError::Forbidden,
            CallError::ResultTooLong => CallError::ResultTooLong,
            CallError::UnencodableResult => CallError::UnencodableResult,
            CallError::Refused(why) => CallError::Refused(why),
            CallError::Unencodable(error) => CallError::Unencodable(error),
            CallError::Dead(reason) => CallError::Dead(reason),
            CallError::Unknown(reason) => CallError::Unknown(reason),
            CallError::NotSent(why) => CallError::NotSent(why),
        }
    }
}

impl<E> CallError<E> {
    /// The same outcome in a function whose calls have different errors, for `?`: `call.await.map_err(CallError::widen)?`.
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use am_rpc::{CallError, Wire, service};
    ///
    /// #[derive(Debug, Wire)]
    /// pub struct Missing;
    ///
    /// #[derive(Debug, Wire)]
    /// pub struct Full;
    ///
    /// #[service]
    /// trait Store {
    ///     fn get(&self, key: &str) -> Result<Vec<u8>, Missing>;
    ///     fn put(&self, key: &str, value: &[u8]) -> Result<(), Full>;
    ///     fn remove(&self, key: &str);
    /// }
    ///
    /// /// What can go wrong in a service, of all methods that are called here.
    /// #[derive(Debug)]
    /// enum Problem {
    ///     Missing,
    ///     Full,
    /// }
    ///
    /// impl From<Missing> for Problem {
    ///     fn from(_: Missing) -> Problem {
    ///         Problem::Missing
    ///     }
    /// }
    ///
    /// impl From<Full> for Problem {
    ///     fn from(_: Full) -> Problem {
    ///         Problem::Full
    ///     }
    /// }
    ///
    /// /// Of a method without an error.
    /// impl From<Infallible> for Problem {
    ///     fn from(never: Infallible) -> Problem {
    ///         match never {}
    ///     }
    /// }
    ///
    /// async fn rename(store: &StoreClient, from: &str, to: &str) -> Result<(), CallError<Problem>> {
    ///     let value = store.get(from).await.map_err(CallError::widen)?;
    ///     store.put(to, &value).await.map_err(CallError::widen)?;
    ///     store.remove(from).await.map_err(CallError::widen)
    /// }
    /// ```
    ///
    /// Where the caller only reports errors, `Result<_, Box<dyn Error>>` takes all of them by `?` alone.
    pub fn widen<F: From<E>>(self) -> CallError<F> {
        self.map_service(F::from)
    }
}

impl<E> From<RequestError> for CallError<E> {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Dead(reason) => CallError::Dead(reason),
            RequestError::TooLarge { needs, most } => CallError::NotSent(NotSent::TooLong { bytes: needs, most }),
            RequestError::Refused(why) => CallError::Refused(why),
            _ => CallError::NotSent(NotSent::Connection("this side closed it")),
        }
    }
}

am_api::debug_as_display!(NotSent);

/// Why [`Rpc::open`](crate::Rpc::open) has failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// The node has no room for the endpoint, or has one of that name.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The process has no descriptor left for a waker.
    #[error("no descriptor is left for a waker ({0}): raise the limit (`ulimit -n`)")]
    NoWaker(String),
}

am_api::debug_as_display!(RpcError);

/// Why a service cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// A service with a method of this name on the wire is served already.
    #[error("`{0}.{1}` is served already, or its name's number is that of another method: rename one of them")]
    Taken(&'static str, &'static str),
}

am_api::debug_as_display!(ServeError);
