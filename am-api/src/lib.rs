//! **Active messages, as programmers call them.** A message names a function,
//! its handler, that runs where the message arrives. Five nouns, which are
//! AM-II's (Chun, Mainwaring, Culler, 1998):
//!
//! | noun | here | |
//! | --- | --- | --- |
//! | bundle | [`Node`] | what the network knows under one name: a transport and its endpoints, on one thread |
//! | endpoint | [`Endpoint`] | where messages arrive: a table of handlers, and the state they work on |
//! | name | `"beta"`, `"main"` | a node and an endpoint of it; [`connect`](Endpoint::connect) turns them into a [`Connection`] |
//! | handler | [`HandlerId`] | index of a function in the receiver's table |
//! | token | [`Token`] | the right to reply to one request, once: a value, and replying consumes it |
//!
//! ```text
//!   node alpha, a thread                           node beta, another thread or machine
//!
//!   endpoint.try_request(beta, ECHO, &[7], b"hi")
//!        │                                             endpoint.poll(&mut state)
//!        └─────────── words, payload ──────────────▶      │
//!                                                         ▼
//!                                       on_request(ECHO)  |state, request|
//!   endpoint.poll(&mut state)                             │    token.reply(DONE, ..)
//!        │  ◀──────── words, payload ─────────────────────┘
//!        ▼
//!   on_reply(DONE)  |state, reply|
//!
//!   what cannot be delivered comes back: on_returned |state, returned|
//! ```
//!
//! Everything happens in [`poll`](Endpoint::poll), on the thread that calls it. Handlers run nowhere else, so the state needs
//! no lock. A handler may take its time, and a program may compute between two polls: its peers wait, and do not take it for dead
//! (`docs/promises.md`). [`try_request`](Endpoint::try_request) returns at once, with an error if the receiver has no room;
//! [`request`](Endpoint::request) polls until there is room.
//!
//! A handler gets the state and one context. A [`Request`] is a [`Message`] and the [`Token`] that replies to it. Each
//! context leads to the endpoint, so a handler can send.
//!
//! Read first: `examples/ping.rs`, then [`Endpoint`], [`Message`] and [`Token`]. The path of one message through the source is
//! `request.rs`, `node_state.rs`, the layers below (`datapath/`), `dispatch.rs`, `reply.rs`. One use each: `examples/call.rs` (a
//! deadline, and reconnecting), `bulk.rs`, `clients.rs`, `transports.rs`, `shutdown.rs` (a server, and a client that only sends), `store.rs` (long messages), `own_loop.rs` and `tokio_echo.rs`.
//!
//! ```
//! use am_api::{HandlerId, Node, Request};
//!
//! const ADD: HandlerId = HandlerId(0);
//! const SUM: HandlerId = HandlerId(0);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let alpha = Node::open("alpha", "sim:1")?;
//! let mut asks = alpha.endpoint::<u64>("main")?;
//! asks.on_reply(SUM, |sum, reply| *sum = reply.word(0));
//!
//! let beta = Node::open("beta", "sim:1")?;
//! let mut adds = beta.endpoint::<()>("main")?;
//! adds.on_request(ADD, |(), Request { message, token }| {
//!     let sum = message.words().iter().sum();
//!     token.reply(SUM, &[sum], b"").unwrap_or_else(|error| eprintln!("{error}"));
//! });
//!
//! let to = asks.connect("beta", "main")?;
//! let mut sum = 0;
//! while !asks.is_open(to) {
//!     asks.poll(&mut sum);
//!     adds.poll(&mut ());
//! }
//! asks.try_request(to, ADD, &[20, 22], b"")?;
//! while sum == 0 {
//!     asks.poll(&mut sum);
//!     adds.poll(&mut ());
//! }
//! assert_eq!(sum, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # More than a frame
//!
//! A message may be as long as its receiver accepts, 1 MiB without [`max_message`](Builder::max_message). One that does not fit a frame travels in
//! several and arrives as one, so a value of any length up to that is sent as one message (`examples/store.rs`). A longer one is a transfer,
//! and so is data that has its place at the receiver.
//!
//! A transfer carries up to 4 GiB: [`put`](Endpoint::put) writes into a [`Region`] that the peer has registered, and
//! [`get`](Endpoint::get) reads from it. Both ends learn when and how it ended. The region's owner sends its id to the peers. Every peer that
//! is connected to the region's endpoint may use it.
//!
//! ```
//! use am_api::{Endpoint, Node, Rights, TransferKind};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (alpha, beta) = (Node::open("alpha", "sim:2")?, Node::open("beta", "sim:2")?);
//! let (mut sends, mut takes) = (alpha.endpoint::<bool>("main")?, beta.endpoint::<bool>("main")?);
//! sends.on_transfer(|is_over, put| *is_over = put.kind == TransferKind::Put && put.result.is_ok());
//! takes.on_transfer(|is_here, put| match put.result {
//!     Ok(()) => *is_here = put.kind == TransferKind::Deposited,
//!     Err(error) => eprintln!("{} bytes did not come: {error}", put.length),
//! });
//! let region = takes.register(vec![0; 1 << 20], Rights::WRITE);
//!
//! let to = sends.connect("beta", "main")?;
//! let (mut is_over, mut is_here) = (false, false);
//! while !sends.is_open(to) {
//!     sends.poll(&mut is_over);
//!     takes.poll(&mut is_here);
//! }
//! sends.put(to, region.id(), 0, vec![7; 1 << 20])?;
//! while !(is_over && is_here) {
//!     sends.poll(&mut is_over);
//!     takes.poll(&mut is_here);
//! }
//! let memory = region.into_memory().map_err(|(error, _region)| error)?;
//! assert!(memory.iter().all(|&byte| byte == 7));
//! # Ok(())
//! # }
//! ```
//!
//! # Without a copy
//!
//! [`prepare`](Endpoint::prepare) gives the memory that a message leaves from. [`keep`](Message::keep) keeps a received message,
//! in the memory where it arrived, after its handler returns.
//!
//! ```
//! use std::io::Write;
//! use am_api::{Connection, Endpoint, HandlerId, OwnedMessage, Request};
//!
//! const LINES: HandlerId = HandlerId(2);
//!
//! /// Writes straight into the frame that leaves.
//! fn send(endpoint: &Endpoint<()>, to: Connection, lines: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
//!     let mut frame = endpoint.prepare(to, LINES, &[lines.len() as u64], 0, 1400)?;
//!     for line in lines {
//!         writeln!(frame, "{line}")?;
//!     }
//!     let written = frame.written();
//!     frame.commit(written).map_err(|(error, _frame)| error.into())
//! }
//!
//! /// Keeps each message. An `OwnedMessage` may go to another thread; its sender has one credit less until it is dropped.
//! fn collect(endpoint: &mut Endpoint<Vec<OwnedMessage>>) {
//!     endpoint.on_request(LINES, |all, Request { message, .. }| all.push(message.keep()));
//! }
//! # let [alpha, beta] = ["alpha", "beta"].map(|name| am_api::Node::open(name, "sim:3").unwrap());
//! # let (mut sends, mut takes) = (alpha.endpoint::<()>("main").unwrap(), beta.endpoint("main").unwrap());
//! # collect(&mut takes);
//! # let to = sends.connect("beta", "main").unwrap();
//! # let mut all = vec![];
//! # while !sends.is_open(to) { sends.poll(&mut ()); takes.poll(&mut all); }
//! # send(&sends, to, &["one", "two"]).unwrap();
//! # while all.is_empty() { sends.poll(&mut ()); takes.poll(&mut all); }
//! # assert_eq!((all[0].word(0), &all[0][..]), (2, &b"one\ntwo\n"[..]));
//! ```
//!
//! # Connections
//!
//! [`on_connection`](Endpoint::on_connection) reports connections. They are also logged to `tracing`: see [`log`].
//!
//! # Names
//!
//! Peers find a node by its name. Of two live nodes with one name the one that was started last has it; both, and all that hear them,
//! [say so](Node::health), and connections of the other one end as [`NameTaken`](ReturnReason::NameTaken). A client that may run several
//! times has a [unique name](Builder::unique_name), with any beginning or none.
//!
//! # Members
//!
//! [`Node::members`] returns the nodes of the segment, and [`on_members`](Endpoint::on_members) reports those that join, leave or
//! crash.
//!
//! # Waiting
//!
//! [`wait`](Endpoint::wait) polls and sleeps until something was handled. [`wait_events`](Endpoint::wait_events) waits for the events of
//! [a mask](Endpoint::set_event_mask), and runs no handler. Programs with a loop of their own wait on a [descriptor](Endpoint::descriptor), and async
//! executors with [`poll_ready`](Endpoint::poll_ready). A [waker](Node::waker) ends a wait from any thread. Calls and transfers from several threads, and
//! endpoints that they share, are in the crate `am-threads`; one message for many subscribers is in `am-base`.
//!
//! # Programs that do not poll
//!
//! A program whose handler sleeps, or that computes for long, is not dead: its peers' messages wait. A peer sees that by
//! [`not_polling_for`](Endpoint::not_polling_for), and bounds it by [`poll_patience`](Builder::poll_patience). The late program's
//! [`health`](Node::health) says so.
//!
//! # Deadlines
//!
//! [`try_call`](Endpoint::try_call) is a request with a deadline and one [outcome](Endpoint::on_outcome);
//! [`answer`](Token::answer) answers it.
//! [`cancel`](Endpoint::cancel) stops a transfer.
//!
//! # Ending
//!
//! A request that was sent has not arrived yet: its `Ok` says that the node has taken it. A program that ends, or drops its endpoint, first
//! calls [`wait_accepted`](Endpoint::wait_accepted) for each connection on which it has sent (`examples/shutdown.rs`). Without it a message
//! that is longer than a frame, and has not left, is dropped with its endpoint. Messages of one frame leave before an endpoint is closed,
//! and the node's drop waits until they are acknowledged, or until 13 ms bring no progress. Messages that may not have arrived are logged
//! as [`abandoned`](log). No handler is left to which they could return.
//!
//! # Forks
//!
//! A node belongs to its process. In a forked child its connections have ended with [`ReturnReason::Forked`]. Whatever the child does with
//! its copy, the parent's node goes on. The child may open nodes of its own.
#![forbid(unsafe_code)]

mod bulk;
mod connect;
mod dispatch;
mod endpoint;
mod endpoint_set;
mod errors;
mod event_mask;
mod events;
mod forked;
mod group;
mod group_place;
mod health;
pub mod log;
mod members;
mod multicast;
mod names;
mod node;
mod node_settings;
mod node_state;
mod object_table;
mod open;
mod owned_message;
mod payload;
mod peers_file;
mod prepare;
mod reply;
mod request;
mod segment_key;
mod statistics;
mod translations;
pub mod transports;
mod wait;
mod waker;

pub use am_engine::{Clock, Idle, ManualClock, PinError, PollScope, pin};
pub use am_proto::{Departure, Fate, FramingWhy, Member, MemberChange, Peer, ReturnReason, WINDOW};
pub use am_ring::{ForeignMemory, ForeignPart, Owner, is_forked_child, own};
pub use am_transport::{PeerAddressError, SharedStamps, Transport, debug_as_display};
pub use am_wire::control::{Incarnation, Name, NodeId, Refusal};
pub use am_wire::{Address, Class, EtherType, Framing, HashKey, group as group_frames, stamp};
pub use bulk::{
    Destination, LongHead, MAX_OWN_TRANSFERS, MAX_TRANSFERS, Region, RegionId, RegionInUse, Rights, TransferError,
    TransferId, TransferKind,
};
pub use connect::{ConnectError, Description};
pub use dispatch::BUDGET;
pub use endpoint::{
    CallError, ConnectionEvent, Endpoint, GroupMessage, MemberEvent, Message, Outcome, Request, Returned, Sender,
    Transfer,
};
pub use endpoint_set::EndpointSet;
pub use errors::{NotOpen, NotReached, Problem, RequestError};
pub use event_mask::Events;
pub use events::ConnectionChange;
pub use group::{GroupError, GroupMember};
pub use group_place::Placement;
pub use multicast::{Multicast, MulticastError, MulticastSendError, OwnedGroupMessage};
pub use names::{CallId, Connection, EndpointName, HandlerId, InvalidName, tag_of};
pub use node::{Counters, EndpointError, Node};
pub use object_table::{ObjectId, ObjectTable};
pub use open::{Builder, OpenError};
pub use owned_message::OwnedMessage;
pub use peers_file::{LineError, PeersFileError};
pub use prepare::Prepared;
pub use reply::{ReplyError, Token};
pub use segment_key::KeyError;
pub use statistics::ConnectionStatistics;
pub use translations::{MAX_TRANSLATIONS, MapError};
pub use waker::{NodeDescriptor, NodeWaker};
