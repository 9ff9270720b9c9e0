//! **Illinois Fast Messages' own calls**, as its paper has them (Pakin, Lauria,
//! Chien, SC'95, table 1), on active messages:
//!
//! | the paper's | here | |
//! | --- | --- | --- |
//! | `FM_send_4(dest,handler,i0,i1,i2,i3)` | [`Fm::send_4`] | send a message of four words |
//! | `FM_send(dest,handler,buf,size)` | [`Fm::send`] | send a message of at most one frame |
//! | `FM_extract()` | [`Fm::extract`] | run the handlers of what has arrived |
//!
//! ```text
//!   node 0                                        node 1
//!   fm.send_4(&mut state, Rank(1), ADD, [..])
//!      │                                             fm.extract(&mut state)
//!      └───────────────── four words ──────────────▶    │
//!                                                       ▼
//!                                         on(ADD)  |state, message|
//!   fm.extract(&mut state)                              │  message.send_4(Rank(0), SUM, [..])
//!      │  ◀───────────── four words ────────────────────┘
//!      ▼
//!   on(SUM)  |state, message|
//! ```
//!
//! The rules, with the paper's section where it has them:
//!
//! - A destination is the number of a node: a [`Rank`] in a [`Cluster`], the same list everywhere. A handler is the index of a function
//!   in the receiver's table, because functions have other addresses in other processes.
//! - Handlers run in `extract`, and while a send outside of handlers waits for room; nowhere else, and never two at once. A handler may
//!   send to any node (§3.1: "there are no restrictions on the actions that can be performed by an handler"), but not extract.
//! - The bytes of a message stay valid until its handler returns (§3.1).
//! - A send returns when its buffer can be used again. Then the message was sent, or, if a handler sent it, is sent when the handler
//!   returns.
//! - Each message is handled once or returns ([`Fm::on_returned`]). The messages that a node sends to another one outside of handlers are
//!   handled in the order in which they were sent (FM 1.0 promises no order, §4.5).
//! - A message is at most one frame (§5: "Larger messages will require segmentation"). That is 128 bytes in FM. Here [`Fm::most`] returns
//!   it: 1488 to 1500 bytes on common Ethernet. A word has 64 bits here.
//! - An `Fm` stays on the thread that opened its transport.
//!
//! # Deadlock
//!
//! A sender waits while the receiver has no room, and a receiver makes room by extracting. Nodes that extract whenever they have nothing
//! else to do never block each other for ever, if **each handler sends at most one message, to the source of its own message**, and the
//! handler of that answer sends none. An answer has room set aside and never waits (Active Messages' discipline of request and reply).
//! FM leaves everything else to the programmer (§3.1), and so does this crate. But a handler that has waited longer than
//! [`Fm::set_patience`] gets [`SendError::Stuck`], which names the node that does not extract.
//!
//! Read first: [`Fm`], then [`Message`]; from C, `bindings/fm/include/fm.h`.
//!
//! ```
//! use am_fm::{Cluster, Fm, HandlerId, Rank};
//!
//! const ADD: HandlerId = HandlerId(0);
//! const SUM: HandlerId = HandlerId(1);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let [left, right] = am_transport::loopback::pair();
//!
//! // On two machines, or in two threads, this is the same program with another rank.
//! let mut zero = Fm::<u64>::open(Cluster::new(["alpha", "beta"], Rank(0))?, Box::new(left.open()?))?;
//! zero.on(SUM, |sum, message| *sum = message.words()[0]);
//!
//! let far = std::thread::spawn(move || {
//!     let cluster = Cluster::new(["alpha", "beta"], Rank(1)).expect("a list of names");
//!     let mut one = Fm::<u64>::open(cluster, Box::new(right.open().expect("memory"))).expect("a node");
//!     one.on(ADD, |answered, message| {
//!         let sum = message.words().iter().sum();
//!         message.send_4(message.source(), SUM, [sum, 0, 0, 0]).expect("room for an answer");
//!         *answered += 1;
//!     });
//!     let mut answered = 0;
//!     while answered == 0 {
//!         one.extract(&mut answered);
//!     }
//!     one.finish(std::time::Duration::from_secs(1)).expect("nothing is under way any more");
//! });
//!
//! let mut sum = 0;
//! zero.send_4(&mut sum, Rank(1), ADD, [20, 20, 1, 1])?;
//! while sum == 0 {
//!     zero.extract(&mut sum);
//! }
//! assert_eq!(sum, 42);
//! zero.finish(std::time::Duration::from_secs(1))?;
//! # far.join().expect("node 1");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod fast;
mod links;
mod message;

pub use am_api::{HandlerId, NotOpen, OpenError, ReturnReason, Transport};
pub use am_base::{Cluster, ClusterError, Rank};
pub use fast::{Fm, FmError, MeetError, Unfinished};
pub use links::SendError;
pub use message::{Message, Returned};
