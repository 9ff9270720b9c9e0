//! Why a call did nothing.

use std::io;

use am_api::{EndpointError, NotOpen};
use nix::errno::Errno;

use crate::{Dpid, Nid};

/// Why there is no such endpoint.
#[derive(thiserror::Error)]
pub enum OpenError {
    /// Another endpoint has this DPID.
    #[error("DPID {0} is in use on this node: choose another one, or close the endpoint that has it")]
    InUse(Dpid),
    /// The pool's memory is too short.
    #[error("a token buffer pool needs at least {least} bytes, not {size}")]
    PoolSize {
        /// The length that was given.
        size: usize,
        /// The least.
        least: usize,
    },
    /// The node has no room for it.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The kernel gives no descriptor for it.
    #[error("no descriptor for the endpoint: {0}{advice}", advice = advice(.0))]
    Descriptor(#[source] io::Error),
}

am_api::debug_as_display!(OpenError);

/// What to do against a limit of the kernel.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE) => "; raise the limit (`ulimit -n`), or close descriptors",
        _ => "",
    }
}

/// Why an endpoint has no edge.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No endpoint of this process.
    #[error("this endpoint is closed")]
    Closed,
    /// No node has this NID.
    #[error("no node has NID {nid}: {why}")]
    NoNode {
        /// The NID.
        nid: Nid,
        /// Where it was looked for.
        why: &'static str,
    },
    /// The list of nodes has this process alone.
    #[error("no node has NID {0}: this process is alone")]
    Alone(Nid),
    /// Nobody has this DPID there.
    #[error("node {nid} has no endpoint with DPID {dpid}: open it there first")]
    NoPoint {
        /// The node.
        nid: Nid,
        /// The DPID.
        dpid: Dpid,
    },
    /// The node does not answer.
    #[error("node {nid}: {why}")]
    Unreachable {
        /// The node.
        nid: Nid,
        /// What is known.
        why: NotOpen,
    },
    /// The node has another list of nodes.
    #[error("node {0} has another list of nodes: give all nodes the same")]
    OtherList(Nid),
    /// Too many connections.
    #[error("no flow id is left on this node: close endpoints that are no longer used")]
    NoFlow,
}

am_api::debug_as_display!(ConnectError);

/// Why a message was not sent. Nothing left, nothing is kept.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// No endpoint of this process.
    #[error("this endpoint is closed")]
    Closed,
    /// It has no edge.
    #[error("this endpoint has no edge yet: connect it")]
    NotConnected,
    /// The receiver has made no room yet.
    #[error("the receiver has no room now: try again")]
    Full,
    /// A message of no bytes: the reader could not tell it from none.
    #[error("a message has at least one byte")]
    Empty,
    /// The receiver's pool cannot hold it.
    #[error("{len} bytes, but the receiver's token buffer pool holds {most}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The most that the receiver takes.
        most: usize,
    },
    /// A message longer than a frame is copied, and there is no memory for the copy.
    #[error("no memory for a copy of {0} bytes")]
    NoMemory(usize),
    /// The edge has ended.
    #[error("the edge has ended: {0}; connect again")]
    Ended(NotOpen),
}

am_api::debug_as_display!(WriteError);

/// Why nothing was read.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No endpoint of this process.
    #[error("this endpoint is closed")]
    Closed,
    /// The process at the other end of an edge has died. Said once for each edge, after the last message that arrived.
    #[error("DPID {dpid} of node {nid} is gone: its process has ended, or does not answer")]
    Lost {
        /// Its node.
        nid: Nid,
        /// Its DPID.
        dpid: Dpid,
    },
    /// A message that this endpoint has written came to nothing, because the receiver's pool can never hold it. Said once, here or by the
    /// next write.
    #[error(
        "a message of {len} bytes came to nothing: the token buffer pool of DPID {dpid} of node {nid} holds {most}"
    )]
    TooLong {
        /// The receiver's node.
        nid: Nid,
        /// Its DPID.
        dpid: Dpid,
        /// The message's length.
        len: usize,
        /// The most that the receiver takes.
        most: usize,
    },
}

am_api::debug_as_display!(ReadError);
