//! Group frames: one Ethernet multicast reaches every member of a group, in the order in which a sequencer numbered the frames.
//!
//! ```text
//!  sender ──ToStamp──▶ sequencer's XDP program ──Stamped, to the group's address──▶ every member
//!                      (or the host: the same [`stamp`](crate::stamp))
//! ```
//!
//! A group frame has `plain` framing, because the sequencer compares its source with the sender's address. It is on
//! [`Flow::NODE`](crate::Flow::NODE) and needs no set-up: a node takes the frames of the groups that it has joined.

use crate::frame::{self, ETHERNET_HEADER, LinkAddresses, TooLong};
use crate::header::{Flow, Header, Kind};
use crate::{Address, Framing};

pub use crate::group_header::{GROUP_HEADER_AT, GROUP_PAYLOAD_AT, GroupFrame, GroupHeader, content};

/// The Ethernet address of a group: locally administered, and with the group bit. Two groups may share an address: the whole id in a
/// frame says which of them it belongs to.
pub const fn address(group: u64) -> Address {
    let [_, _, _, a, b, c, d, e] = group.to_be_bytes();
    Address([0x0b, a, b, c, d, e])
}

/// Bytes of a group frame with a payload of this length.
pub const fn length(payload: usize) -> usize {
    GROUP_PAYLOAD_AT + payload
}

/// Where to write the payload, before [`emit`] writes the frame around it.
///
/// # Errors
/// [`TooLong`] if `space` cannot hold the frame.
pub fn payload(space: &mut [u8], payload: usize) -> Result<&mut [u8], TooLong> {
    let length = length(payload);
    space.get_mut(GROUP_PAYLOAD_AT..length).ok_or(TooLong { needs: length })
}

/// Write a group frame around the payload that is in place. `header` is complete, with its tag. Returns the frame's length.
///
/// # Errors
/// [`TooLong`], with nothing written, if `space` cannot hold the frame.
pub fn emit(space: &mut [u8], link: &LinkAddresses, header: &GroupHeader, payload: usize) -> Result<usize, TooLong> {
    let body = GroupHeader::BYTES + payload;
    let frame = Header { kind: Kind::Group, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    let length = frame::emit(space, Framing::Plain, link, &frame, body, None)?;
    space[GROUP_HEADER_AT..GROUP_PAYLOAD_AT].copy_from_slice(&header.to_bytes());
    Ok(length)
}

/// Readdress a group frame and replace its header: what the XDP program does with a frame that it has stamped.
pub fn rewrite(frame: &mut [u8], to: Address, from: Address, header: &GroupHeader) {
    if let Some(start) = frame.first_chunk_mut::<GROUP_PAYLOAD_AT>() {
        start[..6].copy_from_slice(&to.0);
        start[6..ETHERNET_HEADER - 2].copy_from_slice(&from.0);
        start[GROUP_HEADER_AT..].copy_from_slice(&header.to_bytes());
    }
}

/// The groups that a node has joined, and the socket of each. The XDP program has the same table.
#[derive(Clone, Debug, Default)]
pub struct JoinedGroups {
    ids: [u64; Self::MAX],
    sockets: [u8; Self::MAX],
}

impl JoinedGroups {
    /// The most groups of a node.
    pub const MAX: usize = 8;

    /// No group.
    pub const fn new() -> JoinedGroups {
        JoinedGroups { ids: [0; Self::MAX], sockets: [0; Self::MAX] }
    }

    /// Take the frames of a group to this socket from now on. Returns the group's place, or `None` if there is none left.
    pub fn join(&mut self, group: u64, socket: u8) -> Option<usize> {
        let place = self.find(group).map(|(place, _)| place).or_else(|| self.ids.iter().position(|&id| id == 0))?;
        (self.ids[place], self.sockets[place]) = (group, socket);
        Some(place)
    }

    /// No longer take them. Returns the place that the group had.
    pub fn leave(&mut self, group: u64) -> Option<usize> {
        let (place, _) = self.find(group)?;
        self.ids[place] = 0;
        Some(place)
    }

    /// The place of a group, and its socket.
    pub fn find(&self, group: u64) -> Option<(usize, u8)> {
        let place = self.ids.iter().position(|&id| id == group && id != 0)?;
        Some((place, self.sockets[place]))
    }

    /// The socket of the group at this place.
    pub fn socket(&self, place: usize) -> Option<u8> {
        self.ids.get(place).filter(|&&id| id != 0).map(|_| self.sockets[place])
    }
}
