//! **Active messages, as programmers call them.** A message names a function,
//! its handler, that runs where the message arrives. Five nouns, which are
//! AM-II's (Chun, Mainwaring, Culler, 1998):
//!
//! | noun | here | |
//! | --- | --- | --- |
//! | bundle | [`Node`] | what the network knows under one name: a transport and its endpoints, on one thread |
//! | endpoint | [`Endpoint`] | where messages arrive: a table of handlers, and the state they work on |
//! | name | `"beta"`, `"main"` | a node and an endpoint of it; [`connect`](Port::connect) turns them into a [`Remote`] |
//! | handler | [`Handler`] | index of a function in the receiver's table |
//! | token | [`Token`] | the right to reply to one request, once: a value, and replying consumes it |
//!
//! ```text
//!   node alpha, a thread                           node beta, another thread or machine
//!
//!   endpoint.request(beta, ECHO, &[7], b"hi")
//!        │                                             endpoint.poll(&mut state)
//!        └─────────── words, payload ──────────────▶      │
//!                                                         ▼
//!                                       on_request(ECHO)  |state, request, token|
//!   endpoint.poll(&mut state)                             │    token.reply(DONE, ..)
//!        │  ◀──────── words, payload ─────────────────────┘
//!        ▼
//!   on_reply(DONE)  |state, reply|
//!
//!   what cannot be delivered comes back: on_returned |state, returned|
//! ```
//!
//! Everything happens in [`poll`](Endpoint::poll), on the thread that calls it:
//! no handler runs but there, so that the state needs no lock. Nothing blocks:
//! where a receiver has no room, [`request`](Port::request) says so.
//!
//! Read first: `examples/ping.rs`, then [`Endpoint`], [`Port`] and [`Token`]. The
//! path of one message through the source is `request.rs`, the layers below
//! (`datapath/`), `dispatch.rs`, `reply.rs`.
//!
//! ```
//! use am_api::{Handler, Node};
//!
//! const ADD: Handler = Handler(0);
//! const SUM: Handler = Handler(0);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let [left, right] = transport::loopback::pair();
//!
//! let alpha = Node::open("alpha", Box::new(left.open()?))?;
//! let mut asks = alpha.endpoint::<u64>("main")?;
//! asks.on_reply(SUM, |sum, reply| *sum = reply.word(0));
//!
//! let beta = Node::open("beta", Box::new(right.open()?))?;
//! let mut adds = beta.endpoint::<()>("main")?;
//! adds.on_request(ADD, |(), request, token| {
//!     let sum = request.words().iter().sum();
//!     token.reply(SUM, &[sum], b"").unwrap_or_else(|error| eprintln!("{error}"));
//! });
//!
//! let to = asks.connect("beta", "main")?;
//! let mut sum = 0;
//! while !asks.is_open(to) {
//!     asks.poll(&mut sum);
//!     adds.poll(&mut ());
//! }
//! asks.request(to, ADD, &[20, 22], b"")?;
//! while sum == 0 {
//!     asks.poll(&mut sum);
//!     adds.poll(&mut ());
//! }
//! assert_eq!(sum, 42);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod bulk;
mod connect;
mod counters;
mod describe;
mod dispatch;
mod endpoint;
mod flow_event;
mod handler;
mod ids;
mod kept;
mod message;
mod names;
mod node;
mod open;
mod port;
mod prepare;
mod reply;
mod request;
mod returned;
mod shared;

pub use bulk::{Region, RegionId, RegionInUse, Rights, Transfer, TransferError, TransferId, TransferKind};
pub use connect::{ConnectError, NotOpen, Remote};
pub use counters::Counters;
pub use describe::Description;
pub use dispatch::BUDGET;
pub use endpoint::Endpoint;
pub use engine::{Clock, Hand, Idle, PinError, pin};
pub use flow_event::{FlowChange, FlowEvent};
pub use handler::Handler;
pub use ids::{Id, Ids};
pub use kept::Kept;
pub use message::Message;
pub use names::BadName;
pub use node::{EndpointError, Node};
pub use open::{Builder, OpenError};
pub use port::Port;
pub use prepare::Prepared;
pub use proto::{Fate, FramingWhy, Peer, ReturnReason, WINDOW};
pub use reply::{ReplyError, Token};
pub use request::RequestError;
pub use returned::Returned;
pub use transport::{IntroduceError, Transport};
pub use wire::control::{Incarnation, Name, NodeId, Refusal};
pub use wire::{Address, Class, EtherType, Framing};
