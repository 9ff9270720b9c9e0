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
//! | `dp_connect(fd, nid, dpid)` | [`Dp::connect`] | its edge; again while running: it is redirected |
//! | `dp_write(fd, msg, len)` | [`Dp::write`] | send; never waits |
//! | `dp_read(fd, &address)` | [`Dp::read`], [`Dp::bytes`] | the next message, where it lies in the pool; never waits |
//! | `dp_mmap(fd, &tbp)` | the memory given to [`Dp::open`] | the token buffer pool |
//! | `dp_fsync(fd, n)` | [`Dp::fsync`] | give back the oldest `n` messages that were read |
//! | `dp_close(fd)` | [`Dp::finish`], [`Dp::close`], or the drop of a [`Point`] | |
//!
//! The rules:
//!
//! - What is written to one edge is read in that order, once. A full pool is flow control: the writer is told that there is no room
//!   ([`WriteError::Full`]), and nothing is lost.
//! - Messages go into the pool as they arrive, and are read where they lie. One that is longer than a frame is put together there.
//! - A message longer than the receiver's pool is refused when it arrives: the next write or read of its sender says so, once
//!   ([`WriteError::TooLong`], [`ReadError::TooLong`]), and so does the sender's descriptor.
//! - The death of the other end's process is reported once, after the last message ([`ReadError::Lost`]).
//! - Everything happens in the calls, on the thread that makes them, acknowledgements included. So a program that waits for others
//!   polls meanwhile ([`Dp::wait_until`]), at a barrier too: writers wait for a reader that lives and does not poll. [`Dp::finish`] has a
//!   bound for that. `bindings/dp` has these calls for C, with a thread that works meanwhile.
//!
//! A [`Graph`] has all vertices and edges of a program; [`Dp::join`] makes this process one of its vertices. `dp-graph` starts a program
//! on a graph.
//!
//! Read first: [`Dp`], then `inbox.rs` (the path of a message that arrives), `edge.rs` (one that leaves) and `pool.rs`.
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
