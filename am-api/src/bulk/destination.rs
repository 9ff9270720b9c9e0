//! Long messages whose payload goes to memory of the program. Its first bytes, the front, came with the head and stay in the message.

use am_proto::{Delivery, Words};
use am_ring::{ForeignPart, Frame};
use am_wire::Class;

use super::lent::Data;
use crate::{Connection, HandlerId};

/// The head of a message longer than a frame: the argument of [`receive_into`](crate::Endpoint::receive_into)'s function.
#[derive(Clone, Copy, Debug)]
pub struct LongHead<'a> {
    /// The connection of the message.
    pub connection: Connection,
    /// Request or reply.
    pub class: Class,
    /// The handler that it names.
    pub handler: HandlerId,
    /// The length of its payload.
    pub length: usize,
    /// The first bytes of its payload.
    pub first: &'a [u8],
    words: Words,
}

impl<'a> LongHead<'a> {
    /// `None` if this is no head, or malformed.
    pub(crate) fn of(head: &'a Delivery<Frame>) -> Option<LongHead<'a>> {
        let &Delivery { flow, class, handler, .. } = head;
        let (head, words, first) = head.head()?;
        let (connection, handler, length) = (Connection(flow), HandlerId(handler), head.total as usize);
        Some(LongHead { connection, class, handler, length, first, words })
    }

    /// The word argument with this index; 0 if the message has fewer words.
    pub fn word(&self, at: usize) -> u64 {
        self.words.at(at)
    }
}

/// Where the payload of a long message goes.
#[derive(Clone, Debug)]
pub struct Destination {
    /// So many bytes stay in the message. The head has to have them.
    pub front: usize,
    /// The others go here. They are dropped if this memory is taken back.
    pub memory: ForeignPart,
}

impl Destination {
    /// Whether a message of this length, whose head has this many bytes of it, can go there.
    pub(super) fn fits(&self, total: usize, first: usize) -> bool {
        self.front <= first && total.checked_sub(self.front) == Some(self.memory.length())
    }

    /// Copy the payload's bytes from `at` on to their place. `false` if they cannot be read.
    pub(super) fn deposit(&self, at: usize, data: &mut Data<'_>) -> bool {
        let is_read = match (at.checked_sub(self.front), data) {
            (Some(at), data) => self.memory.fill(at, data.len(), |place| data.copy_to(place)),
            (None, Data::Here(bytes)) => {
                let behind = bytes.get(self.front - at..).unwrap_or_default();
                self.memory.fill(0, behind.len(), |place| Data::Here(behind).copy_to(place))
            }
            // The front came with the head, so no sender of this library lends it.
            (None, Data::Lent(_)) => None,
        };
        is_read.unwrap_or(true)
    }
}
