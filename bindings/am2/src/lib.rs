//! **Active Messages 2 from C**: the calls of Mainwaring and Culler's "Active Messages Applications Programming Interface and
//! Communication Subsystem Organization" behind `include/am.h`.
//!
//! ```text
//!   a C program       #include <am.h>          cc program.c -lam2
//!        │
//!   calls.rs, events.rs, messages.rs, spmd.rs     the functions of the headers: they check arguments and stop panics
//!   process.rs, progress.rs     begin and end, poll and wait
//!   am.rs          the process: one node, bundles, endpoints, one lock
//!   lock.rs        that lock: its first thread takes it without a locked operation
//!   sleepers.rs    threads that sleep, and how they are woken
//!   bundle.rs      a bundle's endpoints, and the events that it waits for
//!   endpoint.rs    an endpoint's tables
//!   lines.rs, local.rs      bounded queues: replies that were not sent yet, messages of this process to itself
//!   send.rs, reply.rs, queue.rs    sending, on a connection or to this process itself
//!   leave.rs       freed endpoints and unmapped translations are closed when their messages have arrived
//!   receive.rs     receiving: tag, handler and bounds are checked; undeliverable messages return (undelivered.rs)
//!   header.rs      the layout of a message's words and payload
//!   echo.rs        two processes in one, for scripts/cost (feature `echo`)
//!        ▼
//!   am-api, am-spmd
//! ```
//!
//! A process has one node. A bundle is a set of its endpoints that are polled together, so an endpoint can move to another bundle and
//! keep its name ([decision 123](../../../docs/decisions/0123-one-node-and-one-lock-under-am-2.md)). The receiver checks the tag of each
//! message.
//!
//! Read first: `include/am.h`, which is the documentation for users; `examples/ping.c`; then `am.rs`.
#![allow(unsafe_code, reason = "pointers from C")]
#![allow(non_snake_case, reason = "the specification's names")]

mod am;
mod bundle;
mod calls;
mod code;
mod context;
#[cfg(feature = "echo")]
mod echo;
mod endpoint;
mod events;
mod header;
mod invoke;
mod leave;
mod lines;
mod loan;
mod local;
mod lock;
mod lost;
mod messages;
mod name;
mod process;
mod progress;
mod queue;
mod receive;
mod reply;
mod send;
mod sleepers;
mod spmd;
mod tables;
mod undelivered;

pub use calls::*;
pub use code::{Code, Status};
#[cfg(feature = "echo")]
pub use echo::{Echo, EchoError};
pub use events::*;
pub use messages::*;
pub use name::Name;
pub use spmd::*;
pub use tables::MAX_BUNDLES;
