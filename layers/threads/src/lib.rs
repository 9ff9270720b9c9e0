//! **Active messages for several threads.** A node stays on one thread, that of its driver. Other threads call, send, reply and run
//! handlers through handles.
//!
//! ```text
//!   any thread                                        the node's thread
//!
//!   endpoint.call(..) ───────┐   posts, and a flag     ┌────────────────────┐
//!   endpoint.request(..) ────┼──────────────────────▶ │ driver.poll()      │ ◀── the network ──▶
//!   token.reply(..) ─────────┘   (no system call       │  am_api::Endpoint  │
//!                                 if it is awake)      └─────────┬──────────┘
//!   call.await, call.wait() ◀────── outcome ────────────────────┤
//!   endpoint.wait(): handlers run ◀── inbox: kept messages ─────┘
//! ```
//!
//! | | here |
//! | --- | --- |
//! | a call from any thread, as a future or blocking | [`SharedEndpoint::call`], [`Call`] |
//! | an endpoint that several threads send on, poll and wait on (AM-II's `AM_PAR`) | [`SharedEndpoint`], [`Handlers`] |
//! | transfers from any thread, as futures or blocking | [`SharedEndpoint::put`], [`get`](SharedEndpoint::get), [`register`](SharedEndpoint::register) |
//! | handlers that need no thread beside the node's | [`Handlers::on_driver`] |
//! | a reply from any thread, also for a sequential endpoint | [`SendToken`], [`Tokens`] |
//! | whether a peer was restarted between two calls | [`Answer::connection`], [`Answer::incarnation`] |
//! | connections that are opened again | [`Reconnect`] |
//!
//! This crate uses only the public interface of `am-api`, so it adds no cost to programs without it. For handlers that must stay on the
//! node's thread, use an [`am_api::Endpoint`] beside the shared one.
//!
//! # Outcomes
//!
//! Each call has one outcome: an answer or a [`CallError`]. Dropping a call cancels it. If the driver is dropped, every call ends with
//! [`CallError::NodeDropped`], and every wait ends. Undelivered requests return to [`Handlers::on_returned`], unless the driver is
//! dropped first.
//!
//! # Memory
//!
//! Calls and requests reuse the buffers of earlier ones, so 1,000 outstanding calls allocate nothing if 1,000 were outstanding before. A
//! received message stays in its frame until its handler has run.
//!
//! Read first: [`share`], then [`SharedEndpoint`]. Examples: `pool.rs` (four threads on one endpoint), `awaits.rs` (a handler that
//! awaits), `tokio_clients.rs` (1,000 connections of a tokio program).
//!
//! ```
//! use std::sync::mpsc::channel;
//! use std::thread;
//! use std::time::Duration;
//! use am_api::{HandlerId, Node};
//! use am_threads::{Handlers, Reconnect, share};
//!
//! const SQUARE: HandlerId = HandlerId(0);
//! const SECOND: Duration = Duration::from_secs(1);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Each node on a thread of its own, which lends its endpoint to this one.
//! let start = |name: &'static str, handlers: Handlers| {
//!     let (gives, endpoint) = channel();
//!     thread::spawn(move || {
//!         let node = Node::open(name, "sim:51").expect("a simulated network");
//!         let (mut driver, endpoint) = share(&node, "main", handlers).expect("an endpoint");
//!         gives.send(endpoint).expect("the other thread waits");
//!         driver.run();
//!     });
//!     endpoint.recv()
//! };
//! // The first word is the call's id.
//! let server = start("beta", Handlers::new().on_request(SQUARE, |request| {
//!     let number = request.message.word(1);
//!     request.token.answer(&[number * number], b"").unwrap_or_else(|error| eprintln!("{error}"));
//! }))?;
//! thread::spawn(move || while !server.is_closed() { server.wait(SECOND); });
//!
//! let client = start("alpha", Handlers::new())?;
//! let beta = client.connect("beta", "main", Reconnect::After(SECOND / 10))?;
//! let callers = [7, 8, 9].map(|number| {
//!     let client = client.clone();
//!     thread::spawn(move || client.call(beta, SQUARE, &[number], b"", 10 * SECOND).wait())
//! });
//! for (caller, square) in callers.into_iter().zip([49, 64, 81]) {
//!     assert_eq!(caller.join().expect("no panic")?.word(0), square);
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod call;
mod driver;
mod error;
mod handle;
mod inbox;
mod local;
mod outcome;
mod park;
mod peer;
mod peers;
mod shared;
mod token;
mod transfer;
mod under_way;
mod words;

pub use call::{Answer, Call};
pub use driver::{Driver, ShareError, share, share_with_tag};
pub use error::CallError;
pub use handle::SharedEndpoint;
pub use inbox::{Handlers, SharedConnectionEvent, SharedMessage, SharedRequest, SharedReturned, SharedTransferEvent};
pub use outcome::SharedTransferError;
pub use peer::{Peer, Reconnect};
pub use token::{SendToken, Tokens};
pub use transfer::SharedTransfer;
