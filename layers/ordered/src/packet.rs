//! How the core's messages travel: as requests with up to four words.
//!
//! | word | control | to be stamped | stamped |
//! | --- | --- | --- | --- |
//! | 0 | the sender's id | the sender's id | the id of the node that sends it |
//! | 1 | kind | kind, level, epoch | kind, level, sender's slot, epoch |
//! | 2 | the receiver's id | the sender's number | number in the order |
//! | 3 | | | the sender's number, its limit |
//!
//! A control message is the payload, in postcard's form. The others have the program's own payload.

use am_ordered_core::{Epoch, Level, MemberId, Message, Stamped};
use bytes::Bytes;

/// The receiver of a request to join: any member.
pub(crate) const ANY: MemberId = MemberId(0);

const CONTROL: u8 = 0;
const SUBMIT: u8 = 1;
const STAMPED: u8 = 2;

/// A message as it travels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packet {
    words: [u64; 4],
    count: usize,
    pub(crate) payload: Bytes,
}

impl Packet {
    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }

    /// A message from one process to another.
    pub(crate) fn new(from: MemberId, to: MemberId, message: Message) -> Packet {
        match message {
            Message::Submit { epoch, seq, level, payload } => {
                let words = [from.0, head(SUBMIT, level, 0, epoch), seq.into(), 0];
                Packet { words, count: 3, payload }
            }
            Message::Stamped(Stamped { epoch, number, sender, seq, limit, level, payload }) => {
                let last = u64::from(seq) << 32 | u64::from(limit);
                Packet { words: [from.0, head(STAMPED, level, sender, epoch), number, last], count: 4, payload }
            }
            other => {
                let payload = postcard::to_allocvec(&other).expect("all of it can be written").into();
                Packet { words: [from.0, CONTROL.into(), to.0, 0], count: 3, payload }
            }
        }
    }

    /// The message in a request, and who sent it. `None`: it is malformed, or for a process that ran here before.
    pub(crate) fn parse(me: MemberId, words: &[u64], payload: &[u8]) -> Option<(MemberId, Message)> {
        let (&[from, head, second], rest) = words.split_first_chunk()?;
        let (level, sender, epoch) = (level(head)?, (head >> 16) as u16, Epoch((head >> 32) as u32));
        let message = match (head as u8, rest) {
            (CONTROL, []) if second == me.0 => postcard::from_bytes(payload).ok().filter(is_control)?,
            (CONTROL, []) if second == ANY.0 => postcard::from_bytes(payload).ok().filter(is_join)?,
            (SUBMIT, []) => {
                Message::Submit { epoch, seq: second.try_into().ok()?, level, payload: Bytes::copy_from_slice(payload) }
            }
            (STAMPED, [last]) => {
                let (seq, limit, payload) = ((last >> 32) as u32, *last as u32, Bytes::copy_from_slice(payload));
                Message::Stamped(Stamped { epoch, number: second, sender, seq, limit, level, payload })
            }
            _ => return None,
        };
        Some((MemberId(from), message))
    }
}

/// Kind, level, slot, epoch.
fn head(kind: u8, level: Level, slot: u16, epoch: Epoch) -> u64 {
    let safe = u64::from(level == Level::Safe);
    u64::from(kind) | safe << 8 | u64::from(slot) << 16 | u64::from(epoch.0) << 32
}

fn level(head: u64) -> Option<Level> {
    match head >> 8 & 0xff {
        0 => Some(Level::Agreed),
        1 => Some(Level::Safe),
        _ => None,
    }
}

fn is_control(message: &Message) -> bool {
    !matches!(message, Message::Submit { .. } | Message::Stamped(_))
}

fn is_join(message: &Message) -> bool {
    matches!(message, Message::Join { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: MemberId = MemberId(7);

    fn comes_back(message: Message) {
        let packet = Packet::new(MemberId(3), ME, message.clone());
        assert_eq!(Packet::parse(ME, packet.words(), &packet.payload), Some((MemberId(3), message)));
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let payload = Bytes::from_static(b"hello");
        comes_back(Message::Leave);
        comes_back(Message::Propose { epoch: Epoch(u32::MAX) });
        comes_back(Message::Submit { epoch: Epoch(9), seq: u32::MAX, level: Level::Safe, payload: payload.clone() });
        let (number, sender, limit, level) = (u64::MAX, u16::MAX, 5, Level::Agreed);
        comes_back(Message::Stamped(Stamped { epoch: Epoch(1), number, sender, seq: 4, limit, level, payload }));
    }

    #[test]
    fn malformed_messages_and_those_for_another_process_are_dropped() {
        let packet = Packet::new(MemberId(3), MemberId(8), Message::Leave);
        assert_eq!(Packet::parse(ME, packet.words(), &packet.payload), None);
        assert_eq!(Packet::parse(MemberId(8), packet.words(), b""), None);
        assert_eq!(Packet::parse(ME, &[], b""), None);
        assert_eq!(Packet::parse(ME, &[1, 9, 0], b""), None, "no such kind");
        assert_eq!(Packet::parse(ME, &[1, 0x0201, 0], b""), None, "no such level");
        let stamped = postcard::to_allocvec(&Message::Submit {
            epoch: Epoch(1),
            seq: 1,
            level: Level::Safe,
            payload: Bytes::new(),
        });
        assert_eq!(Packet::parse(ME, &[1, 0, ME.0], &stamped.expect("it can be written")), None);
    }
}
