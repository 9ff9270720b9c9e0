//! The end of a flow: what each side tells the other.

use crate::{Flow, Seq};

/// The sender closes a flow. It repeats this until [`Closed`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The receiver's flow id.
    pub flow: Flow,
    /// And its nonce.
    pub nonce: u16,
    /// The sender's flow id, for the answer.
    pub own: Flow,
    /// And its nonce.
    pub own_nonce: u16,
    /// What it has received.
    pub acks: FinalAcks,
}

/// The sender has no such flow, or no longer: the answer to [`Close`], and to any other frame on a closed flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The receiver's flow id.
    pub flow: Flow,
    /// And its nonce.
    pub nonce: u16,
    /// The sender's flow id and nonce, if it knows them. A peer may have two halves from one question asked twice; each
    /// then ends only itself.
    pub own: Option<(Flow, u16)>,
    /// What the sender had received, if it remembers.
    pub acks: Option<FinalAcks>,
}

/// What one side has received of one class when a flow ends. No other message of it reaches a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FinalAck {
    /// Every message before this one.
    pub before: Seq,
    /// Bit `i`: and `before + 1 + i`.
    pub sack: u64,
}

/// Why a side ended a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum CloseCause {
    /// It needs the flow no more, or believes that the peer is gone.
    #[default]
    Closed = 1,
    /// Its endpoint has another tag than the peer gave.
    Tag = 2,
    /// Another node has the peer's name, and counts as the one of that name.
    Name = 3,
}

/// What one side has received on a flow when it ends, and why it ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FinalAcks {
    /// Why.
    pub cause: CloseCause,
    /// By class: first requests, then replies.
    pub classes: [FinalAck; 2],
}
