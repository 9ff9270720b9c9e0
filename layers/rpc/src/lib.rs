//! **Remote procedure calls** on active messages: a call is a function of a trait, and runs inline where it arrives (Bal et al., 1997, §4.1
//! and §4.3).
//!
//! ```text
//!   store.get("color")                                    impl Store for Shelf { fn get(&self, key: &str) .. }
//!      │ arguments written into the frame                    ▲ arguments borrowed from the frame
//!      └── CALL: id, method, time left, arguments ───────────┤ inline, on the node's thread
//!   value or error  ◀── reply: id, status, result ───────────┘ result written into the frame that leaves
//!
//!   an async method that is not ready:
//!                   ◀── reply: id, running ────────────────── it becomes a task; its frame and its credit are free
//!   value or error  ◀── RESULT: id, status, result ────────── once it is ready
//!   dropped         ─── CANCEL: id ─────────────────────────▶ the task is told, and decides
//! ```
//!
//! A service is a trait. `#[service]` makes its client, its server and a number for each method's signature:
//!
//! ```
//! use std::cell::RefCell;
//! use std::collections::HashMap;
//!
//! use am_api::Node;
//! use am_rpc::{CallError, Rpc, Wire, service};
//!
//! #[derive(Debug, PartialEq, Wire)]
//! struct Missing;
//!
//! #[service]
//! trait Store {
//!     fn get(&self, key: &str) -> Result<Vec<u8>, Missing>;
//!     fn put(&self, key: &str, value: &[u8]);
//! }
//!
//! #[derive(Default)]
//! struct Shelf(RefCell<HashMap<String, Vec<u8>>>);
//!
//! impl Store for Shelf {
//!     fn get(&self, key: &str) -> Result<Vec<u8>, Missing> {
//!         self.0.borrow().get(key).cloned().ok_or(Missing)
//!     }
//!
//!     fn put(&self, key: &str, value: &[u8]) {
//!         self.0.borrow_mut().insert(key.into(), value.into());
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = std::thread::spawn(|| {
//!     let node = Node::open("beta", "shm:rpc-page").unwrap();
//!     let mut rpc = Rpc::open(&node).unwrap();
//!     rpc.serve(StoreServer::new(Shelf::default())).unwrap();
//!     while node.counters().get("replies_sent") < 3 {
//!         rpc.wait(std::time::Duration::from_millis(100));
//!     }
//!     rpc.shut_down(std::time::Duration::from_secs(1));
//! });
//!
//! let node = Node::open("alpha", "shm:rpc-page")?;
//! let mut rpc = Rpc::open(&node)?;
//! let store = StoreClient::new(&rpc.peer("beta")?);
//! assert_eq!(rpc.block_on(store.get("color")), Err(CallError::Service(Missing)));
//! // Both are under way at once.
//! let (put, get) = (store.put("color", b"green"), store.get("color"));
//! rpc.block_on(put)?;
//! assert_eq!(rpc.block_on(get)?, b"green");
//! # server.join().unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! A program depends on both crates. Which transports it has is said at the first alone; without its default features it needs no clang, and has
//! `shm`, `udp`, `tcp` and `amd`:
//!
//! ```toml
//! am-api = { package = "active-messages", path = "../am/am-api", default-features = false }
//! am-rpc = { path = "../am/layers/rpc" }
//! ```
//!
//! # Methods
//!
//! | in the trait | runs |
//! | --- | --- |
//! | `fn get(&self, key: &str) -> V` | to completion, where the call arrives: no task, no allocation, no lock |
//! | `async fn wait(&self, key: &str) -> V` | is polled once where the call arrives. If it is not ready, it becomes a task of the node, or of [the program's executor](Rpc::set_executor) |
//! | `#[blocking] fn load(&self, name: &str) -> V` | on a thread of a pool, so the implementation is `Send` and `Sync` |
//!
//! An implementation that the program uses, too, is behind an `Rc` or an `Arc`: `StoreServer::shared(store)`. `#[idempotent]` says that running a method twice is as running it once: see [retries](#retries).
//!
//! Arguments may borrow from the frame, and do not outlive the method:
//!
//! ```compile_fail,E0521
//! use std::cell::RefCell;
//!
//! #[am_rpc::service]
//! trait Names {
//!     fn add(&self, name: &str);
//! }
//!
//! struct List(RefCell<Vec<&'static str>>);
//!
//! impl Names for List {
//!     fn add(&self, name: &str) {
//!         self.0.borrow_mut().push(name);
//!     }
//! }
//! ```
//!
//! An inline method may return references, which are written into the answer, and its client gets a
//! [`View`]. A method that returns `Result<V, E>` has a service's error, [`CallError::Service`]. A method that takes a `&`[`Context`] before its
//! arguments knows its caller and the time that is left, and can call back on the same connection. [`codec`] says which types can be sent.
//!
//! An `async` method may await calls, [`Local::sleep`], and what wakes it from elsewhere, such as a channel of `futures-channel`. If its caller leaves
//! meanwhile, its result is dropped.
//!
//! A method waits for another call by a channel, which that call writes to. Here a `pop` waits until something is pushed:
//!
//! ```
//! use std::cell::RefCell;
//! use std::collections::VecDeque;
//! use std::pin::pin;
//!
//! use am_rpc::{Context, service};
//! use futures_channel::oneshot;
//! use futures_util::future::{Either, select};
//!
//! #[service]
//! trait Queue {
//!     fn push(&self, item: u64);
//!     async fn pop(&self, context: &Context) -> Option<u64>;
//! }
//!
//! #[derive(Default)]
//! struct Items {
//!     items: RefCell<VecDeque<u64>>,
//!     pops: RefCell<VecDeque<oneshot::Sender<u64>>>,
//! }
//!
//! impl Queue for Items {
//!     fn push(&self, mut item: u64) {
//!         loop {
//!             let next = self.pops.borrow_mut().pop_front();
//!             let Some(pop) = next else { break self.items.borrow_mut().push_back(item) };
//!             match pop.send(item) {
//!                 Ok(()) => break,
//!                 // Its caller has left.
//!                 Err(back) => item = back,
//!             }
//!         }
//!     }
//!
//!     /// `None` if nobody waits any more. An item on its way to a caller that leaves is lost with its answer.
//!     async fn pop(&self, context: &Context) -> Option<u64> {
//!         if let Some(item) = self.items.borrow_mut().pop_front() {
//!             return Some(item);
//!         }
//!         let (sender, item) = oneshot::channel();
//!         self.pops.borrow_mut().push_back(sender);
//!         match select(item, pin!(context.cancelled())).await {
//!             Either::Left((item, _)) => item.ok(),
//!             Either::Right(_) => None,
//!         }
//!     }
//! }
//! # use am_api::Node;
//! # use am_rpc::Rpc;
//! # use std::time::Duration;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = std::thread::spawn(|| {
//! #     let mut rpc = Rpc::open(&Node::open("beta", "shm:rpc-queue").unwrap()).unwrap();
//! #     rpc.serve(QueueServer::new(Items::default())).unwrap();
//! #     while rpc.statistics().iter().map(|method| method.returned).sum::<u64>() < 4 {
//! #         rpc.wait(Duration::from_millis(10));
//! #     }
//! #     rpc.shut_down(Duration::from_secs(5));
//! # });
//! # let mut rpc = Rpc::open(&Node::open("alpha", "shm:rpc-queue")?)?;
//! # let queue = QueueClient::new(&rpc.peer("beta")?);
//!
//! // From a client: the `pop` is under way while the `push` is made.
//! let (pop, push) = (queue.pop(), queue.push(7));
//! rpc.block_on(push)?;
//! assert_eq!(rpc.block_on(pop)?, Some(7));
//! # rpc.block_on(queue.push(8))?;
//! # assert_eq!(rpc.block_on(queue.pop())?, Some(8));
//! # server.join().unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! An inline method may take its time, but its node does nothing else meanwhile. Inline methods cannot wait for calls, so two nodes that call
//! each other in a circle do not stand still: who waits is `async`, and a task holds neither a frame nor a credit.
//!
//! # Calls
//!
//! A method of a client begins a call, and returns its future. The thread of the node can [`block_on`](Rpc::block_on) it; tasks
//! ([`spawn`](Rpc::spawn)) can await it; [`Call::on_outcome`] runs a function with its outcome; many calls may be under way. A call for which the
//! peer has no room waits in a queue of this side, and [`Peer::ready`] waits for its end. Each call has one outcome: a value, or a [`CallError`],
//! which [says whether the method may have run](CallError::may_have_run). [`Call::named`] adds method and peer to the text of an error;
//! [`CallError::widen`] joins the errors of several methods for `?`.
//!
//! Each call has a deadline: [`Peer::within`], ten seconds without it. The time that is left travels with the call. A server does not begin a
//! call whose time is over, and tells a task when it is. A method's own calls have no more time than it has.
//!
//! Calls of one peer begin in the order in which they were made. Dropping a call's future cancels the call: one that waits here for a connection or
//! for room is not sent, an inline one runs, and an `async` method [sees it](Context::cancelled) and decides, so nothing is cut off in the middle.
//! [`Rpc::shut_down`] waits for calls that a program does not await.
//!
//! # Retries
//!
//! No call is sent twice, unless its method is marked `#[idempotent]` and its peer is [`retrying`](Peer::retrying). Then one that found the server
//! gone, shutting down or busy is sent again after a pause, while there is time. A budget bounds how many. If one attempt may have run, the
//! outcome does not say that the call did not run.
//!
//! # Streams
//!
//! An `async` method may take a [`StreamWriter`], and writes items to its caller; its client gets the call and a [`StreamReader`]. One that takes a
//! `StreamReader` reads from its caller, which gets the writer. A method may take one of each. A stream has credit of its own: a reader that does
//! not read stops its writer, and nobody else. It ends when its writer is dropped. If its call ends before, the reader learns that it was
//! [cut](ItemError::Cut), and the call's outcome says why. A call with
//! streams has a deadline, too: [`Peer::within`] says a longer one.
//!
//! # Versions
//!
//! A method's number is that of its name and of the layout of its types. A client of another version of the trait can call the methods that
//! have not changed; of the others it learns which they are: [`CallError::Mismatch`], [`CallError::UnknownMethod`].
//!
//! # Who may call, and what is known
//!
//! | | |
//! | --- | --- |
//! | only callers that know a tag, or that a function allows by their name | [`Rpc::open_as`] and [`Local::peer_at`]; [`Rpc::serve_to`] |
//! | which services an endpoint has, with which signatures, and whether they can be called | [`Reflection`], which each endpoint serves; [`Rpc::set_health`] |
//! | how often each method ran and failed, and how long it took | [`Rpc::statistics`], and from elsewhere [`Reflection`] |
//! | let running calls end, and begin no more | [`Rpc::shut_down`] |
//! | spans `call` and `serve` of `tracing` | the feature `tracing` |
//! | methods as services of `tower` | the feature `tower`: `MethodService` |
//! | types that implement `serde`'s traits | the feature `serde`: `codec::Serde` |
//!
//! # Threads
//!
//! An [`Rpc`] and its peers stay on their node's thread. Other threads call by [`Remote::run`]: what they give it runs there, as a task.
//!
//! # Programs that compute
//!
//! A program that computes for long makes its callers wait, and polls in its loops cost more than they find. *Poll when idle, interrupt when
//! busy* is what Orca did (§4.1), in two ways here:
//!
//! | | methods run | the program computes | the program waits for a call |
//! | --- | --- | --- | --- |
//! | [`Helper`] | on the helper's thread, which has the node | the helper sleeps until something arrives | the helper polls without a pause |
//! | [`Arrivals`] | on the program's thread, between two steps of its work | a step reads a flag: no system call | [`block_on`](Rpc::block_on) polls |
//!
//! The helper best has a core that computes nothing. `am-bench busy` measures both beside polls and a thread that spins.
//!
//! Read first: this page, `examples/kv.rs`, [`Rpc`], [`CallError`]; then `dispatch.rs`, `incoming.rs` and `runtime.rs`.
#![forbid(unsafe_code)]

// The code that `#[derive(Wire)]` writes names this crate, also in this crate.
extern crate self as am_rpc;

mod arrivals;
mod bytes;
mod calls;
pub mod codec;
mod context;
mod control;
mod deadlines;
mod dispatch;
mod error;
mod helper;
mod incoming;
mod local;
mod method;
mod named;
mod outbox;
mod peer;
mod peers;
mod reflection;
mod remote;
mod retries;
mod rpc;
mod runtime;
mod service;
mod sleep;
mod spans;
mod statistics;
mod status;
mod stream;
mod tasks;
mod times;
#[cfg(feature = "tower")]
mod tower;
mod waiters;
mod wakers;

pub use am_base::{HelperPanicked, StartError};
pub use am_rpc_macros::service;
pub use arrivals::Arrivals;
pub use codec::{Decode, DecodeError, Encode, EncodeError, Schema, Wire};
pub use context::Context;
pub use control::Cancelled;
pub use error::{CallError, NotSent, RpcError, ServeError};
pub use helper::Helper;
pub use local::Local;
pub use method::{MethodId, MethodInfo, Runs, ServiceInfo, Skew};
pub use named::{NamedCall, NamedError};
pub use peer::{Call, DEFAULT_TIME, Peer, View};
pub use reflection::{Health, MethodDescription, Reflection, ReflectionClient, ReflectionServer, ServiceDescription};
pub use remote::{MAX_JOBS, Remote, RemoteError, RemoteTask};
pub use retries::Retries;
pub use rpc::Rpc;
pub use runtime::MAX_CALLS;
pub use service::Service;
pub use sleep::Sleep;
pub use statistics::{Latency, MethodStatistics};
pub use stream::{ItemError, STREAM_WINDOW, STREAM_WINDOW_BYTES, StreamError, StreamReader, StreamWriter};
pub use tasks::{LocalTask, MAX_TASK_BYTES, MAX_TASKS};
#[cfg(feature = "tower")]
pub use tower::MethodService;

/// What the code that [`service`] generates uses.
#[doc(hidden)]
pub mod generated {
    pub use crate::incoming::{Arguments, Incoming, MethodResult, Returned};
    pub use crate::peer::{Borrowed, ReadResult, Reply};
    pub use crate::stream::CallStreams;
    pub use crate::tasks::TaskPool;
    pub use blocking::unblock;
}
