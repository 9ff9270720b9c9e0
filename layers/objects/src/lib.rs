//! **Shared objects**: a Rust value that lives on many hosts and behaves as one (Bal et al., *Performance of a High-Level Parallel
//! Language on a High-Speed Network*, 1997, sections 2.1 and 3.1).
//!
//! ```text
//!   host a                       host b                       host c
//!   jobs.write().push(7)         jobs.write().pop()           jobs.read().len()
//!      │                            │                            │
//!      └─────▶ one order of all writes (am-ordered) ◀─────┘      │ no message
//!                 │                 │                 │          ▼
//!              replica           replica           replica ── the value here
//! ```
//!
//! An object is a Rust type. `#[object]` makes its operations of its functions:
//!
//! ```
//! use std::collections::VecDeque;
//! use std::time::Duration;
//!
//! use am_api::Node;
//! use am_objects::{Space, Wire, object};
//!
//! #[derive(Default, Wire)]
//! struct Jobs {
//!     items: VecDeque<u64>,
//! }
//!
//! #[object]
//! impl Jobs {
//!     #[read]
//!     fn len(&self) -> u64 {
//!         self.items.len() as u64
//!     }
//!
//!     #[write]
//!     fn push(&mut self, item: u64) {
//!         self.items.push_back(item);
//!     }
//!
//!     /// Waits for an item.
//!     #[write]
//!     #[guard(!self.items.is_empty())]
//!     fn pop(&mut self) -> u64 {
//!         self.items.pop_front().unwrap_or_default()
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A network in this process, with a seed. Another one is another name: `shm:lab` on one host, `udp:10.0.0.7:7000`, `xdp:eth1`.
//! let node = Node::open("alpha", "sim:35")?;
//! let mut space = Space::builder(&node).object::<Jobs>().found("lab")?;
//! let jobs = space.create("jobs", &Jobs::default())?;
//! // Any thread has it.
//! let worker = std::thread::spawn({
//!     let jobs = jobs.clone();
//!     move || jobs.write().pop().wait()
//! });
//! space.block_on(async { jobs.write().push(7).await })?;
//! space.wait_until(Duration::from_secs(5), |_| worker.is_finished());
//! assert_eq!(worker.join().expect("it ends")?, 7);
//! assert_eq!(space.block_on(jobs.read().len())?, 0);
//! # Ok(())
//! # }
//! ```
//!
//! Another process joins by any that is there, and has the objects once it is a member. Both name one network, such as `shm:lab`; over `udp:` and `tcp:`
//! each names the addresses of the others, too (`docs/transports.md`):
//!
//! ```no_run
//! # use std::time::Duration;
//! # use am_api::Node;
//! # use am_objects::{Space, Wire, object};
//! # #[derive(Default, Wire)]
//! # struct Jobs { items: Vec<u64> }
//! # #[object]
//! # impl Jobs {
//! #     #[write]
//! #     fn push(&mut self, item: u64) { self.items.push(item); }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::open("beta", "shm:lab")?;
//! let mut space = Space::builder(&node).object::<Jobs>().join("lab", &["alpha"])?;
//! space.wait_until(Duration::from_secs(10), |space| space.open::<Jobs>("jobs").is_some());
//! let missing = || space.health().unwrap_or_else(|| "there is no object of this name yet".into());
//! let jobs = space.open::<Jobs>("jobs").ok_or_else(missing)??;
//! space.block_on(jobs.write().push(8))?;
//! space.leave(Duration::from_secs(10))?;
//! # Ok(())
//! # }
//! ```
//!
//! A process that ends without [`Space::leave`] has crashed, as the others see it: it counts as a member until it has been silent for
//! [`Settings::patience`], and the space goes on only if the others are a majority. With two processes the other one is none, and stands still for good. To survive a
//! crash, have a third process, or found the space with [`Settings { tie_break: Some("alpha".into()), ..Settings::default() }`](Settings::tie_break): then
//! `alpha` goes on without the other one.
//!
//! The thread that has the space waits by [`Space::block_on`]; any other one by [`Call::wait`]. In another module the type's operations are those of the
//! traits `JobsReads` and `JobsWrites`, which are used there.
//!
//! A program depends on three crates, beside a clone of this repository in `../am`:
//!
//! ```toml
//! [dependencies]
//! am-api = { package = "active-messages", path = "../am/am-api" }
//! am-objects = { path = "../am/layers/objects" }
//! am-rpc = { path = "../am/layers/rpc" }
//! ```
//!
//! # Operations
//!
//! | | runs | costs |
//! | --- | --- | --- |
//! | `#[read] fn len(&self) -> u64` | here, at once | no message |
//! | the same, by `read_latest()` | here, once this process has all writes that are done anywhere: linearizable | a round trip to a majority |
//! | the same, by `read_within(age)` | here, at once if the last `read_latest()` is not older | none, or a round trip |
//! | `#[write] fn push(&mut self, item: u64)` | at every process, at one place in the order of all writes. Its result is computed where it was called | a message of the group |
//! | `#[write] #[guard(!self.items.is_empty())] fn pop(&mut self) -> u64` | the same, once its guard holds. It is tried again after each write, the earliest call first, without spinning | the same |
//!
//! Operations are indivisible, and call nothing of their object but by `self`; nor do they wait for a call ([`CallError::InOperation`]). A read that takes long keeps the writes of
//! its object waiting, and with them the thread that polls. An operation with several guarded statements runs the first one whose guard holds, and waits while none does:
//!
//! ```
//! # use am_objects::{Wire, object};
//! #[derive(Default, Wire)]
//! struct Desk {
//!     urgent: Vec<String>,
//!     others: Vec<String>,
//! }
//!
//! #[object]
//! impl Desk {
//!     #[write]
//!     fn take(&mut self) -> String {
//!         when! {
//!             !self.urgent.is_empty() => self.urgent.remove(0),
//!             !self.others.is_empty() => self.others.remove(0),
//!         }
//!     }
//! }
//! ```
//!
//! # A program that computes
//!
//! A space is served by the thread that polls it. The others go on without a process that does not poll for 5 s ([`Settings::patience`]), and meanwhile its copies are old. A
//! program that computes has a [`Helper`]: a thread that has the space, and sleeps until something arrives.
//!
//! # Two patiences
//!
//! | | default | of | when it is over |
//! | --- | --- | --- | --- |
//! | [`Settings::patience`] | 5 s | the members with a silent one | the others put it out. It hears [`Event::Ended`] once it is back, and can join again |
//! | [`Builder::patience`] | 10 s | a call without a place in the order, or without an answer of the process that keeps its object | the call ends: [`CallError::Unknown`] or [`CallError::NotRun`] |
//!
//! The second one is longer, so that a call outlives the crash of another process, as long as a majority is left.
//!
//! # Where an object is
//!
//! | [`Placement`] | a read | a write | a crash |
//! | --- | --- | --- | --- |
//! | `Replicated`, the default | here | a message of the group, at every process | of a minority takes nothing |
//! | `At("alpha")` | a call of that process; there, at once | a call of that process | of that process takes the object |
//! | `Adaptive` | as the object is placed now, by the reads and writes of all | the same | the same |
//!
//! An object that many read and few write is replicated; one that is mostly written by one process, or by many in turn and read little, is kept. [`Space::create_at`] says it at the
//! beginning, [`Space::place`] moves an object while it is used. Whatever the placement, threads see one history.
//!
//! # What a program can rely on
//!
//! - All processes see the writes of a space in one order. A process that has the result of its write reads what that write has done. (Sequential consistency,
//!   for threads that wait for each write.) A read at another process may be older; `read_latest` is not.
//! - A write runs once. Its call says what it returned; or [`CallError::NotRun`]; or [`CallError::Unknown`], if this process was apart from the others.
//! - What `Safe` writes, which are the default, have done is there as long as a majority of each [view](Space::view) lives.
//! - A write that panics poisons its object, at every process alike.
//! - Objects live as long as a majority of each view. A process without a majority reads what it has, and goes on only once the others are there again: no write runs,
//!   and no process can join. Where they are gone for good, the space is. [`Space::save`] still works there, unless another process keeps an
//!   object, and writes the objects as they were last. Found a new space with the file ([`Builder::saved`]).
//! - A process may join at any time. It gets the objects about 1 MiB at a time, and writes go on meanwhile.
//!
//! # Every process has to come to the same value
//!
//! A write runs at each process. It may depend on the object and its arguments alone: not on clocks, random numbers, addresses, threads, or the order in which a
//! `HashMap` is iterated, which differs from process to process. Give what differs as an argument: `expire(&mut self, now: u64)`.
//!
//! After each 1,024 writes of an object the processes compare a digest of its value, and [`Space::health`] names one that differs. In a test, [`Twice`] runs operations on two
//! copies.
//!
//! # Where to go on
//!
//! To use it: [`object`], [`Space`], [`Shared`], [`CallError`]; `docs/promises.md`; the programs in `layers/objects/examples`, of which `object_store` is the shortest.
//!
//! To change it: `table.rs` says what each message does, `objects.rs` does it, and `courier.rs` is the way of a call.
#![forbid(unsafe_code)]

// The macro names the crate; so do its own tests.
#[cfg(test)]
extern crate self as am_objects;

mod ask;
mod call;
mod calls;
mod command;
mod courier;
mod digest;
mod entry;
mod error;
mod file;
mod helper;
mod homes;
mod inbox;
#[cfg(test)]
mod mutants;
mod object;
mod objects;
mod placement;
mod replica;
mod running;
mod shared;
#[cfg(test)]
mod simulated;
mod slot;
mod space;
mod state;
mod table;
mod transfer;
mod twice;
mod uses;
mod waiters;
mod waiting;

pub use am_base::{HelperPanicked, StartError};
/// Of `impl Queue`: the operations of the object type `Queue`.
///
/// `#[read]` marks a function of `&self` that runs where it is called. `#[write]` marks one that runs at every process; `#[guard(condition)]` says what has to hold
/// before, in terms of `self` and the arguments. A body that is one `when! { guard => statement, .. }` has several guards. Other functions stay the
/// type's own. Arguments and results are of types that [travel](codec); a result owns what it has.
///
/// It writes the traits `QueueReads` and `QueueWrites`, which have the same functions, each returning a [`Call`]: call them on
/// [`Shared::read`] and [`Shared::write`]. In another module, import them.
pub use am_objects_macros::object;
pub use am_ordered::{Ended, Event, Level, Settings, View};
pub use am_rpc::Wire;
pub use am_rpc::codec;
pub use call::Call;
pub use error::CallError;
pub use helper::{Helper, StopError};
#[doc(hidden)]
pub use object::result_bytes;
pub use object::{Malformed, Object, Operation};
pub use shared::{Here, Latest, Reads, Shared, Writes};
pub use space::{Builder, NotLeft, OpenError, Placed, Placement, Space};
pub use twice::Twice;
