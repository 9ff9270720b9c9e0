//! The header of a group frame: see [`group`](crate::group).

use crate::codec::{Field, by_code, carried, fields};
use crate::siphash::{HashKey, hash};
use crate::{Framing, Reason};

/// Where the group header is in a frame.
pub const GROUP_HEADER_AT: usize = Framing::Plain.body_at();

/// Where the payload of a group frame is.
pub const GROUP_PAYLOAD_AT: usize = GROUP_HEADER_AT + GroupHeader::BYTES;

/// What a group frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum GroupFrame {
    /// A message for the sequencer, which writes its number and sends it on.
    ToStamp,
    /// A message with its number.
    Stamped,
    /// Something between members that has no place in the order.
    Datagram,
}

impl GroupFrame {
    /// All of them, in the order of their codes, which count from 0.
    pub const ALL: [GroupFrame; 3] = [GroupFrame::ToStamp, GroupFrame::Stamped, GroupFrame::Datagram];
}

/// The start of a group frame's body. The payload follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// The group: a random number, never 0.
    pub group: u64,
    /// Counts the sequencers of the group. A frame of another epoch is not stamped.
    pub epoch: u32,
    /// What the frame is.
    pub what: GroupFrame,
    /// The user's. Stamping leaves them alone.
    pub flags: u8,
    /// The sender's place among the senders of the epoch.
    pub sender: u16,
    /// The sender's number of the message.
    pub seq: u32,
    /// The sender's credit, written by the stamp: its messages before this number may be stamped.
    pub limit: u32,
    /// The place in the order, written by the stamp.
    pub number: u64,
    /// The sender's [hash](crate::group::content) of the payload; 0 without a key.
    pub content: u64,
    /// The [tag](GroupHeader::tag_under) of the fields before; 0 without a key.
    pub tag: u64,
}

impl GroupHeader {
    /// Bytes of the header.
    pub const BYTES: usize = 48;

    /// Bytes before the tag.
    const TAGGED: usize = Self::BYTES - 8;

    /// The header of a message for the sequencer.
    pub const fn to_stamp(group: u64, epoch: u32, sender: u16, seq: u32) -> GroupHeader {
        let what = GroupFrame::ToStamp;
        GroupHeader { group, epoch, what, flags: 0, sender, seq, limit: 0, number: 0, content: 0, tag: 0 }
    }

    /// The header as it is on the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        self.put(&mut &mut bytes[..]);
        bytes
    }

    /// The header of a group frame, and its payload. The caller has found out that the frame is one
    /// ([`steer`](crate::steer::steer), [`frame::parse`](crate::frame::parse)).
    ///
    /// # Errors
    /// [`Reason::Body`]: the frame is too short, or of a sort that this version does not know.
    pub fn parse(frame: &[u8]) -> Result<(GroupHeader, &[u8]), Reason> {
        let mut rest = frame.get(GROUP_HEADER_AT..).ok_or(Reason::Body)?;
        let header = GroupHeader::take(&mut rest).ok_or(Reason::Body)?;
        Ok((header, rest))
    }

    /// The tag that the fields before it have under this key; 0 without a key. It proves that a member wrote them.
    pub fn tag_under(&self, key: HashKey) -> u64 {
        if key == [0; 2] { 0 } else { hash(key, &self.to_bytes()[..Self::TAGGED]) }
    }

    /// Whether the tag is the one that the key demands. A group without a key ignores tags.
    pub fn is_authentic(&self, key: HashKey) -> bool {
        key == [0; 2] || self.tag == self.tag_under(key)
    }

    /// The same header with the hash of a payload and a tag.
    pub fn signed(self, key: HashKey, payload: &[u8]) -> GroupHeader {
        let header = GroupHeader { content: content(key, payload), ..self };
        GroupHeader { tag: header.tag_under(key), ..header }
    }

    /// Whether a member has signed this header and this payload.
    pub fn has_signed(&self, key: HashKey, payload: &[u8]) -> bool {
        self.is_authentic(key) && (key == [0; 2] || self.content == content(key, payload))
    }
}

/// The hash of a payload under the key of its group; 0 without a key.
pub fn content(key: HashKey, payload: &[u8]) -> u64 {
    if key == [0; 2] { 0 } else { hash(key, payload) }
}

fields! { GroupHeader { group epoch what flags sender seq limit number content tag } }

carried! {
    GroupFrame as u8: |what| what as u8, |code| by_code(&GroupFrame::ALL, u32::from(code) + 1);
}

/// What steering requires of a group frame beside its group.
pub(crate) fn check(words: u8, frame: &[u8]) -> Result<(), Reason> {
    if words != 0 {
        return Err(Reason::Words);
    }
    GroupHeader::parse(frame).map(|_| ())
}
