//! How the core's messages travel: as requests with up to four words.
//!
//! | word | control | part of a control message | to be stamped | stamped |
//! | --- | --- | --- | --- | --- |
//! | 0 | the sender's id | the sender's id | the sender's id | the id of the node that sends it |
//! | 1 | kind | kind | kind, form, epoch | kind, form, sender's slot, epoch |
//! | 2 | the receiver's id | the receiver's id | the sender's number | number in the order |
//! | 3 | | its place, and the message's length, in bytes | | the sender's number, its limit |
//!
//! A control message is the payload, in postcard's form. The others have the program's own payload, or the name of a content that travels apart,
//! in a request with its id and its sender as words 2 and 3.

use am_ordered_core::{Content, Epoch, Level, Long, MemberId, Message, Piece, PieceContent, Stamped};
use bytes::Bytes;

/// The receiver of a request to join: any member.
pub(crate) const ANY: MemberId = MemberId(0);

const CONTROL: u8 = 0;
const SUBMIT: u8 = 1;
const STAMPED: u8 = 2;
const DATA: u8 = 3;
const PART: u8 = 4;

/// Room for a control message, or for what is around a state.
const SMALL: usize = 256;

/// Longer payloads have a connection of their own.
const LONG: usize = 4096;

/// Bits of a message's form.
const SAFE: u8 = 1;
const APART: u8 = 2;

/// A message as it travels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packet {
    words: [u64; 4],
    count: usize,
    pub(crate) payload: Bytes,
}

impl Packet {
    /// Whether others shall not wait behind it.
    pub(crate) fn is_long(&self) -> bool {
        self.payload.len() > LONG
    }

    /// Whether it is the content of a message.
    pub(crate) fn is_content(&self) -> bool {
        self.words[1] == u64::from(DATA)
    }

    /// Whether it may travel in parts: a program's messages may not be longer than all members accept, and its state may.
    pub(crate) fn has_parts(&self) -> bool {
        self.words[1] == u64::from(CONTROL)
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }

    /// The words of the part that begins there.
    pub(crate) fn part_words(&self, place: usize) -> [u64; 4] {
        let [from, _, to, _] = self.words;
        [from, PART.into(), to, (place as u64) << 32 | self.payload.len() as u64]
    }

    /// A message from one process to another.
    pub(crate) fn new(from: MemberId, to: MemberId, message: Message) -> Packet {
        match message {
            Message::Submit { epoch, seq, level, content } => {
                let (form, payload) = form(level, &content);
                let words = [from.0, head(SUBMIT, form, 0, epoch), seq.into(), 0];
                Packet { words, count: 3, payload }
            }
            Message::Stamped(Stamped { epoch, number, sender, seq, limit, level, content }) => {
                let last = u64::from(seq) << 32 | u64::from(limit);
                let (form, payload) = form(level, &content);
                Packet { words: [from.0, head(STAMPED, form, sender, epoch), number, last], count: 4, payload }
            }
            Message::Data { sender, id, payload } => {
                Packet { words: [from.0, DATA.into(), id, sender.0], count: 4, payload }
            }
            other => {
                // A buffer that grows would copy a long state several times, and the others wait meanwhile.
                let state = match &other {
                    Message::State(state) => state.state.as_ref().map_or(0, Bytes::len),
                    Message::Piece(Piece { content: PieceContent::Part { bytes, .. }, .. }) => bytes.len(),
                    _ => 0,
                };
                let payload = postcard::to_extend(&other, Vec::with_capacity(state + SMALL));
                let payload = payload.expect("all of it can be written").into();
                Packet { words: [from.0, CONTROL.into(), to.0, 0], count: 3, payload }
            }
        }
    }

    /// The sender, the place and the message's length, if a request is a part of a control message for this process.
    pub(crate) fn part(me: MemberId, words: &[u64]) -> Option<(MemberId, usize, usize)> {
        match *words {
            [from, kind, to, place] if kind == u64::from(PART) && to == me.0 => {
                Some((MemberId(from), (place >> 32) as usize, place as u32 as usize))
            }
            _ => None,
        }
    }

    /// The control message whose parts are together.
    pub(crate) fn parse_whole(payload: &[u8]) -> Option<Message> {
        postcard::from_bytes(payload).ok().filter(is_control)
    }

    /// The message in a request, and its sender. `None`: it is malformed, or for a process that ran here before.
    pub(crate) fn parse(me: MemberId, words: &[u64], payload: &[u8]) -> Option<(MemberId, Message)> {
        let (&[from, head, second], rest) = words.split_first_chunk()?;
        let (form, sender, epoch) = ((head >> 8) as u8, (head >> 16) as u16, Epoch((head >> 32) as u32));
        let message = match (head as u8, rest) {
            (CONTROL, []) if second == me.0 => Packet::parse_whole(payload)?,
            (CONTROL, []) if second == ANY.0 => postcard::from_bytes(payload).ok().filter(is_join)?,
            (DATA, [sender]) => {
                let (sender, id) = (MemberId(*sender), second);
                Message::Data { sender, id, payload: Bytes::copy_from_slice(payload) }
            }
            (SUBMIT, []) => {
                let (seq, (level, content)) =
                    (second.try_into().ok()?, content(form, Bytes::copy_from_slice(payload))?);
                Message::Submit { epoch, seq, level, content }
            }
            (STAMPED, [last]) => {
                let (seq, limit, (level, content)) =
                    ((last >> 32) as u32, *last as u32, content(form, Bytes::copy_from_slice(payload))?);
                Message::Stamped(Stamped { epoch, number: second, sender, seq, limit, level, content })
            }
            _ => return None,
        };
        Some((MemberId(from), message))
    }
}

/// Kind, form, slot, epoch.
fn head(kind: u8, form: u8, slot: u16, epoch: Epoch) -> u64 {
    u64::from(kind) | u64::from(form) << 8 | u64::from(slot) << 16 | u64::from(epoch.0) << 32
}

/// A message's form, and its payload.
pub(crate) fn form(level: Level, content: &Content) -> (u8, Bytes) {
    let safe = if level == Level::Safe { SAFE } else { 0 };
    match content {
        Content::Here(payload) => (safe, payload.clone()),
        Content::Apart(Long { id, length }) => (safe | APART, [id.to_be_bytes(), length.to_be_bytes()].concat().into()),
    }
}

/// The same again.
pub(crate) fn content(form: u8, payload: Bytes) -> Option<(Level, Content)> {
    let level = if form & SAFE == 0 { Level::Agreed } else { Level::Safe };
    match form & !SAFE {
        0 => Some((level, Content::Here(payload))),
        APART => {
            let (id, length) = payload.split_first_chunk()?;
            let (id, length) = (u64::from_be_bytes(*id), u64::from_be_bytes(length.try_into().ok()?));
            Some((level, Content::Apart(Long { id, length })))
        }
        _ => None,
    }
}

fn is_control(message: &Message) -> bool {
    !matches!(message, Message::Submit { .. } | Message::Stamped(_) | Message::Data { .. })
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
        let here = Content::Here(payload.clone());
        comes_back(Message::Data { sender: MemberId(u64::MAX), id: u64::MAX, payload });
        comes_back(Message::Submit { epoch: Epoch(9), seq: u32::MAX, level: Level::Safe, content: here.clone() });
        let (number, sender, limit, level) = (u64::MAX, u16::MAX, 5, Level::Agreed);
        let stamped = Stamped { epoch: Epoch(1), number, sender, seq: 4, limit, level, content: here };
        comes_back(Message::Stamped(stamped.clone()));
        comes_back(Message::Stamped(Stamped { content: Content::Apart(Long { id: 7, length: u64::MAX }), ..stamped }));
    }

    #[test]
    fn malformed_messages_and_those_for_another_process_are_dropped() {
        let packet = Packet::new(MemberId(3), MemberId(8), Message::Leave);
        assert_eq!(Packet::parse(ME, packet.words(), &packet.payload), None);
        assert_eq!(Packet::parse(MemberId(8), packet.words(), b""), None);
        assert_eq!(Packet::parse(ME, &[], b""), None);
        assert_eq!(Packet::parse(ME, &[1, 9, 0], b""), None, "no such kind");
        assert_eq!(Packet::parse(ME, &[1, 0x0401, 0], b""), None, "no such form");
        assert_eq!(Packet::parse(ME, &[1, 0x0201, 0], b"short"), None, "no id");
        let stamped = postcard::to_allocvec(&Message::Submit {
            epoch: Epoch(1),
            seq: 1,
            level: Level::Safe,
            content: Content::Apart(Long { id: 1, length: 1 }),
        });
        assert_eq!(Packet::parse(ME, &[1, 0, ME.0], &stamped.expect("it can be written")), None);
    }
}
