//! **Directed Point**: a cluster as a directed graph, used with the calls of files (Lee, Tam, Wang: "Directed Point: An Efficient
//! Communication Subsystem for Cluster Computing").
//!
//! ```text
//!        process A, node 0                              process B, node 1
//!   ┌──────────────────────┐                       ┌──────────────────────┐
//!   │ DPID 1 ──────────────┼── edge {1, 1, 2} ─────┼─▶ DPID 2 ▶ its pool  │
//!   │ its pool ◀ DPID 1 ◀──┼── edge {2, 0, 1} ─────┼── DPID 2             │
//!   └──────────────────────┘                       └──────────────────────┘
//! ```
//!
//! A process is a vertex with any number of endpoints. An edge is a channel in one direction: {local DPID, peer NID, peer DPID}. An
//! endpoint has at most one edge out of it, and can have any number into it.
//!
//! | the paper's | here | |
//! | --- | --- | --- |
//! | `dp_open(dpid)` | [`Dp::open`] | an endpoint, which is a file descriptor |
//! | `dp_connect(fd, nid, dpid)` | [`Dp::connect`] | make its edge; a second call redirects it |
//! | `dp_write(fd, msg, len)` | [`Dp::write`] | send; never waits |
//! | `dp_read(fd, &address)` | [`Dp::read`], [`Dp::bytes`] | the next message, in place in the pool; never waits |
//! | `dp_mmap(fd, &tbp)` | the memory given to [`Dp::open`] | the token buffer pool |
//! | `dp_fsync(fd, n)` | [`Dp::fsync`] | release the oldest `n` messages that were read |
//! | `dp_close(fd)` | [`Dp::finish`], [`Dp::close`], or the drop of a [`Point`] | |
//!
//! The rules:
//!
//! - The messages of one edge are read once each, in the order in which they were written. A full pool is flow control: the writer
//!   gets [`WriteError::Full`], and nothing is lost.
//! - Messages are copied into the pool as they arrive, and are read in place. One that is longer than a frame is assembled there.
//! - The receiver refuses a message that is longer than its pool. Its sender gets this error once, from its next write or read
//!   ([`WriteError::TooLong`], [`ReadError::TooLong`]), and its descriptor becomes readable.
//! - The end of the other end's process is reported once, after the last message ([`ReadError::Lost`]).
//! - All work, acknowledgements included, is done in the calls, on the thread that makes them. So a program that waits for others, for
//!   example at a barrier, has to poll meanwhile ([`Dp::wait_until`]): a process that lives and does not poll makes its writers wait.
//!   [`Dp::finish`] bounds this wait. `bindings/dp` has these calls for C, with a thread that polls meanwhile.
//!
//! A [`Graph`] has all vertices and edges of a program; [`Dp::join`] makes this process one of its vertices. `dp-graph` starts a program
//! on a graph.
//!
//! Read first: [`Dp`], then `inbox.rs` (the path of an arriving message), `edge.rs` (the path of a leaving message) and `pool.rs`.
//!
//! ```
//! use std::time::Duration;
//! use am_api::Node;
//! use am_dp::{Dp, Dpid, Nid, Nodes};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = Nodes::list(["alpha"], Nid(0)).ok_or("no such place in the list")?;
//! let mut dp = Dp::new(Node::open(nodes.own_name(), "sim:1")?, nodes)?;
//! let (one, two) = (dp.open(Dpid(1), vec![0; 65536])?, dp.open(Dpid(2), vec![0; 65536])?);
//! dp.connect(&one, Nid(0), Dpid(2), Duration::from_secs(5))?; // an edge to another node is made in the same way
//!
//! dp.write(&one, b"hello")?;
//! let place = dp.read(&two)?.ok_or("no message")?;
//! assert_eq!(dp.bytes(&two, &place), Some(&b"hello"[..]));
//! dp.fsync(&two, 1);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod claim;
mod connect;
mod descriptor;
mod dp;
mod edge;
mod error;
mod graph;
mod graph_text;
mod inbox;
mod inboxes;
mod join;
mod nodes;
mod point;
mod pool;
mod read;
mod readiness;
mod report;
mod wait;
mod write;

pub use connect::Attempt;
pub use dp::{Dp, Traffic};
pub use error::{ConnectError, OpenError, ReadError, WriteError};
pub use graph::{End, Graph, GraphEdge, GraphError, MAX_VERTICES, dpids};
pub use join::JoinError;
pub use nodes::{Dpid, Nid, NodeTable, Nodes, TableError};
pub use point::Point;
pub use read::Place;
pub use report::{GRAPH_VARIABLE, NoReport, PointReport, REPORT_MARK, REPORT_VARIABLE, Report};
