//! Why a message cannot be sent, why a connection is not open, what is wrong with a node.

use std::time::Duration;

use am_proto::{FlowState, ReturnReason, SendError};
use am_wire::Framing;
use am_wire::control::{Name, Refusal};

/// Why a request was not sent. Nothing left, nothing is kept.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// As many requests as the receiver has room for are in flight.
    #[error("no credit now: the receiver has not made room yet; poll, then try again")]
    NoCredit,
    /// The memory of this node's transport is in use.
    #[error("all frames of this node are in use; poll, then try again")]
    NoFrame,
    /// As many messages of this node as it may have are in flight or prepared, or its memory for long messages is in use.
    #[error("this node's send queue is full; poll, then try again")]
    QueueFull,
    /// The connection is being set up.
    #[error("not connected yet; poll until it is, or use `wait_open`")]
    Connecting,
    /// The peer refused the connection.
    #[error("the peer refused the connection: {}", refusal(*.0))]
    Refused(Refusal),
    /// The connection has ended, and not by this side.
    #[error("the connection is dead: {0}{again}", again = again(*.0))]
    Dead(ReturnReason),
    /// This side closed the connection, or it is a connection of another node. (Of one that ended 16 thousand connections ago
    /// nothing else is known, either.)
    #[error("this side closed the connection, or it is a connection of another node; connect again")]
    Closed,
    /// The node that prepared it was dropped.
    #[error("the node of this message was dropped")]
    NodeDropped,
    /// Its payload is longer than the peer accepts.
    #[error("the payload has {needs} bytes, and the peer accepts {most} (its `Builder::max_message`)")]
    TooLarge {
        /// Bytes of its payload.
        needs: usize,
        /// The longest payload that the peer accepts with these words.
        most: usize,
    },
    /// It is [prepared](crate::Endpoint::prepare), or otherwise has to travel in one frame, and is longer.
    #[error(
        "the payload has {needs} bytes, and the message's one frame has room for {most}; `try_request` takes several frames"
    )]
    TooLargeForFrame {
        /// Bytes of its payload.
        needs: usize,
        /// The longest payload in one frame, beside these words.
        most: usize,
    },
    /// More word arguments than a message has; a call has one less, because its id is a word.
    #[error("{count} words, but there may be at most {most}; put the rest into the payload")]
    TooManyWords {
        /// Those given.
        count: usize,
        /// The most that there may be.
        most: usize,
    },
}

am_transport::debug_as_display!(RequestError);

impl RequestError {
    /// Whether polling and trying again may help.
    pub fn is_temporary(&self) -> bool {
        use RequestError::{Connecting, NoCredit, NoFrame, QueueFull};
        matches!(self, NoCredit | NoFrame | QueueFull | Connecting)
    }
}

impl From<SendError> for RequestError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NoCredit => RequestError::NoCredit,
            SendError::Full(_) => RequestError::QueueFull,
            SendError::Connecting => RequestError::Connecting,
            SendError::Ended(reason) => RequestError::Dead(reason),
            SendError::Refused(why) => RequestError::Refused(why),
            SendError::Unknown => RequestError::Closed,
            SendError::TooLarge { needs, max: most } => RequestError::TooLargeForFrame { needs, most },
        }
    }
}

impl From<NotOpen> for RequestError {
    fn from(error: NotOpen) -> Self {
        match error {
            NotOpen::Connecting => RequestError::Connecting,
            NotOpen::Refused(why) => RequestError::Refused(why),
            NotOpen::Dead(reason) => RequestError::Dead(reason),
            NotOpen::Closed => RequestError::Closed,
        }
    }
}

/// Why a connection is not open.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOpen {
    /// Not yet; it may still come.
    #[error("not connected yet")]
    Connecting,
    /// The peer refused.
    #[error("the peer refused: {}", refusal(*.0))]
    Refused(Refusal),
    /// It ended, or the peer did not answer. Is the peer's node running, on the same network and EtherType, under this name?
    /// On a transport without broadcast, was one of the two given the other's address?
    #[error("{0}{advice}", advice = advice(*.0))]
    Dead(ReturnReason),
    /// This side closed it, or it is a connection of another node. (Of one that ended 16 thousand connections ago nothing else is
    /// known, either.)
    #[error("this side closed it, or it is a connection of another node; connect again")]
    Closed,
}

am_transport::debug_as_display!(NotOpen);

/// Why [`wait_open`](crate::Endpoint::wait_open) has failed, and what the node knows about it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}{}", self.circumstances())]
pub struct NotReached {
    /// Why the connection is not open.
    pub why: NotOpen,
    /// The transport, as it was named at run time.
    pub transport: String,
    /// The nodes from which this node has heard, without those that it knows from the static table only.
    pub seen: Vec<Name>,
    /// Frames that were dropped since the node opened because this version does not know theirs. Another version of this
    /// library may have sent them, or another program with this EtherType or port.
    pub of_another_version: u64,
    /// What keeps this node from working as it should: see [`Node::health`](crate::Node::health).
    pub problem: Option<Box<Problem>>,
}

am_transport::debug_as_display!(NotReached);

/// The most names of nodes that an error prints.
const MAX_NAMED: usize = 8;

impl NotReached {
    /// What to check, if nothing has answered.
    fn circumstances(&self) -> String {
        if !matches!(self.why, NotOpen::Connecting | NotOpen::Dead(ReturnReason::Unreachable)) {
            return String::new();
        }
        let transports = self.transport.split('+').map(|each| each.split(':').next().unwrap_or(each));
        let mut advice: Vec<&str> = transports.filter_map(advice_for).collect();
        advice.dedup();
        let names: Vec<&str> = self.seen.iter().take(MAX_NAMED).map(Name::as_str).collect();
        let seen = match self.seen.len() - names.len() {
            0 if names.is_empty() => "this node has heard from no other node".to_owned(),
            0 => format!("this node has heard from {}", names.join(", ")),
            more => format!("this node has heard from {} and {more} others", names.join(", ")),
        };
        let versions = (self.of_another_version > 0).then(|| {
            let frames = self.of_another_version;
            format!(
                "frames of another version came here and were dropped ({frames}): build both programs from one version"
            )
        });
        let problem = self.problem.as_ref().map(|problem| format!("of this node: {problem}"));
        let all = advice.into_iter().map(str::to_owned).chain([seen]).chain(versions).chain(problem);
        all.map(|part| format!("; {part}")).collect()
    }
}

/// What two nodes need to reach each other over a transport of this scheme.
fn advice_for(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "udp" | "tcp" => {
            "over udp and tcp one of the two needs the other's address, in its transport's name or by `add_peer_address`"
        }
        "shm" => "over shm both need the same segment name and directory",
        "xdp" | "dpdk" => "over Ethernet both have to be on one segment, with the same EtherType",
        "amd" => "over amd the other program has to be attached to this daemon, or on its wire",
        "sim" => "a simulated network ends with its process",
        _ => return None,
    })
}

/// What to check if the peer did not answer. The transport is not known here.
fn advice(why: ReturnReason) -> &'static str {
    match why {
        ReturnReason::Unreachable => ": is its node running, on this network, under this name?",
        ReturnReason::NotPolling => ": its program computes, waits or is stopped; see `Builder::poll_patience`",
        ReturnReason::Tag => ": connect with the new one",
        ReturnReason::NameTaken => ": give one of the two another name (`Builder::unique_name`)",
        ReturnReason::Closed | ReturnReason::Restarted | ReturnReason::NoHandler | ReturnReason::Forked => "",
    }
}

/// What to do about a dead connection.
fn again(why: ReturnReason) -> &'static str {
    match why {
        // The reason says it.
        ReturnReason::Forked => "",
        _ => "; connect again when the peer is back",
    }
}

impl NotOpen {
    /// Framing and the most bytes of words and payload of a flow in this state, or why it is not open.
    pub(crate) fn of(state: FlowState) -> Result<(Framing, usize), NotOpen> {
        match state {
            FlowState::Open { framing, max_body, .. } => Ok((framing, max_body)),
            FlowState::Connecting => Err(NotOpen::Connecting),
            FlowState::Refused(why) => Err(NotOpen::Refused(why)),
            FlowState::Ended(reason) => Err(NotOpen::Dead(reason)),
            FlowState::Unknown => Err(NotOpen::Closed),
        }
    }
}

/// What keeps a node from working as it should: see [`Node::health`](crate::Node::health).
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing leaves or arrives now: the interface is down or gone, the kernel refuses every datagram, the own address was
    /// removed, the segment's file was replaced. The transport says which.
    #[error("{0}")]
    Link(String),
    /// Two live nodes have one name.
    #[error(
        "two nodes are called `{name}`, one at {first} and one at {second}: connections lead to the one that was \
         started last; start one of them under another name"
    )]
    DuplicateName {
        /// Their name.
        name: Name,
        /// The address of one: its link address, and its peer address where the transport knows it.
        first: String,
        /// The address of the other.
        second: String,
    },
    /// This program did not poll, although frames waited for it. Its peers wait meanwhile. Reported for ten seconds.
    #[error(
        "this program did not poll for {:.1} s, although frames waited for it, and its peers waited; let handlers be short, poll \
         while computing, or give the work to another thread",
        .0.as_secs_f64()
    )]
    Late(Duration),
    /// A peer talks with another node of this node's name, which was started later. This node cannot reach that one: over
    /// UDP and TCP only the peer hears both.
    #[error(
        "the peer at {peer} talks with another node that is called `{name}`, too, and was started later: start one of the \
         two under another name, or let each choose its own (`Builder::unique_name`)"
    )]
    NameTaken {
        /// The name of this node.
        name: Name,
        /// The address of the peer: its link address, and its peer address where the transport knows it.
        peer: String,
    },
    /// Frames of the full length do not reach a peer.
    #[error(
        "frames of more than {max_frame} bytes do not arrive at `{peer}`, so messages to it are shorter: its NIC's driver cuts \
         them, or an MTU between is smaller; give all ports between one MTU, or open its interface with `copy=always`"
    )]
    ShortFrames {
        /// The peer's node.
        peer: Name,
        /// The longest frames that reach it.
        max_frame: usize,
    },
    /// Nodes with another segment key, or without one, are on the segment. They and this node do not talk.
    #[error(
        "{frames} control frames of nodes with another segment key, or without one, were dropped: give all nodes of the \
         segment the same key (`Builder::segment_key`)"
    )]
    OtherKey {
        /// Such frames so far.
        frames: u64,
    },
}

am_transport::debug_as_display!(Problem);

pub(crate) fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::NoEndpoint => "it has no endpoint of that name",
        Refusal::Tag => "its endpoint has another tag; both sides must name the same",
        Refusal::Full => "it has no room for another connection",
        Refusal::Name => {
            "it talks with another node of this node's name, which was started later; start one of the two under another \
             name, or let each choose its own (`Builder::unique_name`)"
        }
        Refusal::Member(_) => {
            "it belongs to a group, and the member that it names is not to be asked; connect to the group's name"
        }
    }
}
