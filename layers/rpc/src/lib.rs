//! **Remote procedure calls** on active messages.
//!
//! Read first: [`codec`], which says how arguments and results become bytes.
#![forbid(unsafe_code)]

// The code that `#[derive(Wire)]` writes names this crate, also in this crate.
extern crate self as am_rpc;

mod bytes;
mod calls;
pub mod codec;
mod context;
mod control;
mod deadlines;
mod error;
mod incoming;
mod method;
mod outbox;
mod peer;
mod peers;
mod rpc;
mod runtime;
mod service;
mod status;
mod tasks;

pub use am_rpc_macros::service;
pub use codec::{Decode, DecodeError, Encode, EncodeError, Schema, Wire};
pub use context::Context;
pub use control::Cancelled;
pub use error::{CallError, NotSent, RpcError, ServeError};
pub use method::{MethodId, MethodInfo, Runs, ServiceInfo, Skew};
pub use peer::{Call, DEFAULT_TIME, Peer, View};
pub use rpc::Rpc;
pub use runtime::MAX_CALLS;
pub use service::Service;
pub use tasks::{LocalTask, MAX_TASKS};

/// What the code that [`service`] generates uses.
#[doc(hidden)]
pub mod generated {
    pub use crate::incoming::{Arguments, Incoming, MethodResult, Returned};
    pub use crate::peer::{Borrowed, ReadResult, Reply};
    pub use crate::tasks::TaskPool;
    pub use blocking::unblock;
}
