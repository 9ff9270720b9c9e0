//! Why a message was not sent.

use std::time::Duration;

use am_api::{ConnectError, NotOpen, Refusal, ReplyError, RequestError, ReturnReason};

use crate::Rank;

/// Why a message was not sent. Nothing left, nothing is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No node has this number.
    #[error("there is no node {dest}: the list has {nodes}, which count from 0")]
    NoSuchNode {
        /// The number.
        dest: Rank,
        /// Nodes in the list.
        nodes: usize,
    },
    /// A message to oneself.
    #[error("node {0} is this one: call the function")]
    Own(Rank),
    /// It does not fit into one frame.
    #[error("{size} bytes, but a message is one frame, here at most {most} bytes: send it in parts")]
    TooLarge {
        /// Bytes.
        size: usize,
        /// The most that there may be.
        most: usize,
    },
    /// Nobody is there, or not any more.
    #[error("node {dest}: {why}")]
    Unreachable {
        /// The node that it was for.
        dest: Rank,
        /// What is known.
        why: NotOpen,
    },
    /// The node has another list of nodes.
    #[error("node {0} refuses us: its list of nodes is not the same as here, or it does not speak FM")]
    Stranger(Rank),
    /// A handler waited for room, and none came.
    #[error(
        "a handler waited {waited:?} for node {dest}, which does not extract; is it in a handler too, and waits for us? \
         let handlers send one answer to where their message came from, and send all else outside of them"
    )]
    Stuck {
        /// The node that it was for.
        dest: Rank,
        /// For how long.
        waited: Duration,
    },
    /// Too many connections.
    #[error("no flow id is left on this node: it has connections with too many nodes at once")]
    NoFlow,
}

impl SendError {
    pub(crate) fn of_connect(error: ConnectError, dest: Rank) -> SendError {
        match error {
            ConnectError::NoFlow => SendError::NoFlow,
            ConnectError::OwnNode(_) => SendError::Own(dest),
            // The names of a cluster are checked, and its endpoint is open as long as the `Fm`.
            ConnectError::Closed | ConnectError::Name(_) => SendError::Unreachable { dest, why: NotOpen::Closed },
        }
    }

    /// Of a request that polling does not help.
    pub(crate) fn of_request(error: RequestError, dest: Rank) -> SendError {
        let unreachable = |why| SendError::Unreachable { dest, why };
        match error {
            RequestError::TooLarge { needs, most } => SendError::TooLarge { size: needs, most },
            RequestError::Refused(Refusal::Tag) => SendError::Stranger(dest),
            RequestError::Refused(why) => unreachable(NotOpen::Refused(why)),
            RequestError::Dead(reason) => unreachable(NotOpen::Dead(reason)),
            RequestError::Connecting => unreachable(NotOpen::Connecting),
            // The others are temporary, or cannot be: there are four words, and the node is there.
            _ => unreachable(NotOpen::Closed),
        }
    }

    pub(crate) fn of_reply(error: ReplyError, dest: Rank) -> SendError {
        match error {
            ReplyError::TooLarge { needs, most } => SendError::TooLarge { size: needs, most },
            ReplyError::Dead(reason) => SendError::Unreachable { dest, why: NotOpen::Dead(reason) },
            // There are four words, and the node is there.
            ReplyError::Closed | ReplyError::NodeDropped | ReplyError::TooManyWords { .. } => {
                SendError::Unreachable { dest, why: NotOpen::Dead(ReturnReason::Closed) }
            }
        }
    }
}
