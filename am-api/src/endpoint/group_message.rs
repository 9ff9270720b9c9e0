//! What a handler gets for a frame of a group.

use std::fmt;
use std::ops::Deref;

use am_ring::Frame;
use am_wire::group::{GROUP_PAYLOAD_AT, GroupHeader};
use am_wire::{Address, Buffer};
use derive_where::derive_where;

use super::message::Head;
use crate::Endpoint;

/// What the handler of [`Endpoint::join_group`] gets. It derefs to the payload.
#[derive_where(Clone, Copy)]
pub struct GroupMessage<'a, S> {
    /// The header.
    pub header: GroupHeader,
    pub(crate) frame: &'a Frame,
    /// The endpoint: handlers send through it.
    pub endpoint: &'a Endpoint<S>,
}

impl<'a, S> GroupMessage<'a, S> {
    pub(crate) fn new(header: GroupHeader, frame: &'a Frame, endpoint: &'a Endpoint<S>) -> Self {
        GroupMessage { header, frame, endpoint }
    }
}

impl<S> GroupMessage<'_, S> {
    /// The address that the frame came from: the sender's, or of a stamped frame the sequencer's.
    pub fn from(&self) -> Address {
        match *self.frame.bytes() {
            [_, _, _, _, _, _, a, b, c, d, e, f, ..] => Address([a, b, c, d, e, f]),
            _ => Address::default(),
        }
    }
}

impl<S> Deref for GroupMessage<'_, S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        group_payload(self.frame)
    }
}

impl<S> fmt::Debug for GroupMessage<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupMessage")
            .field("header", &self.header)
            .field("payload", &Head(self))
            .finish_non_exhaustive()
    }
}

/// The payload of a group frame.
pub(crate) fn group_payload(frame: &Frame) -> &[u8] {
    frame.bytes().get(GROUP_PAYLOAD_AT..).unwrap_or_default()
}
