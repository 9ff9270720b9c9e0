//! Content that is different for every message. It follows from the message's sender, number and size.

/// One run of a node. After a restart the node is another sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRun {
    /// The node.
    pub node: u16,
    /// The number of the run.
    pub run: u16,
}

/// The identity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The sender.
    pub from: NodeRun,
    /// The sender's number for it.
    pub number: u32,
}

impl MessageId {
    /// The identity as the first word of the message.
    pub fn to_word(self) -> u64 {
        (self.from.node as u64) << 48 | (self.from.run as u64) << 32 | self.number as u64
    }

    /// The identity in the first word of a message.
    pub fn from_word(word: u64) -> MessageId {
        MessageId { from: NodeRun { node: (word >> 48) as u16, run: (word >> 32) as u16 }, number: word as u32 }
    }
}

/// Write the words and the payload of a message. The first two words are its identity and `note`.
pub fn fill(body: &mut [u8], id: MessageId, note: u64) {
    let mut state = id.to_word() ^ (body.len() as u64) << 20;
    for (number, place) in body.chunks_mut(8).enumerate() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = match number {
            0 => id.to_word(),
            1 => note,
            _ => (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9),
        };
        place.copy_from_slice(&word.to_be_bytes()[..place.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_depends_on_all_three() {
        let with = |number, size| {
            let mut body = vec![0; size];
            fill(&mut body, MessageId { from: NodeRun { node: 1, run: 1 }, number }, 5);
            body
        };
        assert_eq!(with(1, 100), with(1, 100));
        assert_ne!(with(1, 100)[16..], with(2, 100)[16..]);
        assert_ne!(with(1, 100)[16..], with(1, 101)[16..100]);
        assert_eq!(MessageId::from_word(u64::from_be_bytes(with(7, 16)[..8].try_into().unwrap())).number, 7);
    }
}
