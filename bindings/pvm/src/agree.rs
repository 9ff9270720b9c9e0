//! How two tasks agree on active messages: three short messages by PVM's own route, in an operation that a task without this library
//! drops.
//!
//! ```text
//!   A sends its first message to B       B
//!     OFFER: my node, its addresses ────▶ knows A's node, and connects to it
//!     knows B's node ◀──────────── ACCEPT: my node, its addresses
//!     the connection opens ◀────────────▶ the connection opens
//!     SWITCH, behind A's last message ──▶ A's active messages are PVM's from here on
//!     A's active messages from here on ◀─ SWITCH, and the same the other way
//! ```
//!
//! Nobody waits: until then all messages take PVM's own route. Where two offers cross, the task with the higher number accepts, and the
//! lower one ignores what it got.

use std::ffi::c_int;

use am_api::{Address, NotOpen, transports};

use crate::layout::{
    self, CONNECT_ANSWER, CONTROL, DAEMON, DAEMON_CONTEXT, NO_OPERATION, NOTIFY, Pmsg, TASK_EXIT, XDR,
};
use crate::library::Library;
use crate::pair::{Known, Loose, Stage};
use crate::process::{self, ENDPOINT, Process};
use crate::pvm_route::{self, OwnMessage};

/// What these messages begin with. A version of this library whose words or pieces differ has another number: to it a task of this one is as one
/// without the library.
const MARK: &[u8; 4] = b"AM\x00\x04";

/// PVM's number for a notification of a task's exit.
const EXIT_OF_TASK: c_int = 1;

/// The version of PVM's protocol between tasks and daemons.
const PROTOCOL: c_int = 1318;

/// One of the three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Offer(Place),
    Accept(Place),
    Switch,
}

/// Where a task's node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    node: String,
    /// Of its transports, as others have to be given them.
    address: String,
    /// The six bytes that stand for it in frames.
    link: Address,
    tag: u64,
}

impl Place {
    fn of(process: &Process) -> Place {
        Place {
            node: process.node.name().to_owned(),
            address: process.node.local_address(),
            link: process.node.link_address(),
            tag: process.tag,
        }
    }

    /// Make it known to this task's node. `is_near`: it is on this host. Returns what has to be forgotten when the task ends.
    fn note(&self, process: &Process, is_near: bool) -> Known {
        let known = |addresses| Known { node: self.node.clone(), addresses };
        let has_memory = |address: &str| transports::split(address).iter().any(|part| part.starts_with("shm:"));
        let is_enough = is_near && has_memory(&self.address) && has_memory(&process.node.local_address());
        if is_enough {
            // Without a search for the name, which asks all nodes.
            _ = process.node.add_peer(&self.node, self.link);
            return known(vec![]);
        }
        // Refused by a node that has no transport of this kind: then there may be another way.
        let is_added = |address: &&str| process.node.add_peer_address(address).is_ok();
        known(transports::peer_addresses(&self.address).filter(is_added).map(str::to_owned).collect())
    }
}

impl Word {
    fn bytes(&self) -> Vec<u8> {
        let (kind, place) = match self {
            Word::Offer(place) => (1, Some(place)),
            Word::Accept(place) => (2, Some(place)),
            Word::Switch => (3, None),
        };
        let mut bytes = [MARK.as_slice(), &[kind]].concat();
        if let Some(Place { node, address, link, tag }) = place {
            bytes.extend(tag.to_be_bytes());
            bytes.extend(link.0);
            bytes.push(node.len() as u8);
            bytes.extend(node.as_bytes());
            bytes.extend(address.as_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Word> {
        let (&kind, rest) = bytes.strip_prefix(MARK)?.split_first()?;
        let place = || {
            let (tag, rest) = rest.split_first_chunk()?;
            let (link, rest) = rest.split_first_chunk()?;
            let (&length, rest) = rest.split_first()?;
            let (node, address) = rest.split_at_checked(length.into())?;
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
            Some(Place {
                node: text(node)?,
                address: text(address)?,
                link: Address(*link),
                tag: u64::from_be_bytes(*tag),
            })
        };
        match kind {
            1 => place().map(Word::Offer),
            2 => place().map(Word::Accept),
            3 if rest.is_empty() => Some(Word::Switch),
            _ => None,
        }
    }

    /// The word in a message of PVM's.
    ///
    /// # Safety
    /// The message is PVM's, and nothing changes it meanwhile.
    pub(crate) unsafe fn in_message(message: *const Pmsg) -> Option<Word> {
        // SAFETY: the caller's promise.
        unsafe {
            if ((*message).context, (*message).tag) != (CONTROL, NO_OPERATION) {
                return None;
            }
            let bytes: Vec<u8> = layout::fragments(message).flatten().copied().collect();
            Word::parse(&bytes)
        }
    }
}

/// Some bytes for PVM's own route.
fn own_message(library: &Library, to: c_int, context: c_int, tag: c_int, bytes: &[u8]) -> OwnMessage {
    let message = library.build(&[bytes], XDR);
    // SAFETY: made above.
    unsafe {
        (*message).source = library.own_tid();
        (*message).context = context;
    }
    OwnMessage { message: Loose::new(message), to, tag }
}

fn say(library: &Library, to: c_int, word: &Word) {
    pvm_route::send_own(library, own_message(library, to, CONTROL, NO_OPERATION, &word.bytes()));
}

/// Let the daemon say, once, when this task exits.
fn watch(library: &Library, task: c_int) {
    if process::with(|process| process.pairs.watched.insert(task)) != Some(true) {
        return;
    }
    let numbers = [EXIT_OF_TASK, CONTROL, TASK_EXIT, 1, task];
    let bytes: Vec<u8> = numbers.into_iter().flat_map(c_int::to_be_bytes).collect();
    pvm_route::send_own(library, own_message(library, DAEMON, DAEMON_CONTEXT, NOTIFY, &bytes));
}

/// Refuse a direct route to a task that has this library. At once: that task waits for the answer within its `mroute`, and this one may wait
/// within its own for the answer of another.
pub(crate) fn refuse_direct_route(library: &Library, task: c_int) {
    // PVM's protocol, no, and an empty text with its end.
    let numbers = [PROTOCOL, 1, 1, 0];
    let bytes: Vec<u8> = numbers.into_iter().flat_map(c_int::to_be_bytes).collect();
    pvm_route::send_now(library, own_message(library, task, CONTROL, CONNECT_ANSWER, &bytes));
}

/// Offer active messages to this task, once.
pub(crate) fn offer(library: &'static Library, task: c_int) {
    let place = process::with_opened(library, |process| {
        process.pairs.pair(task).stage = Stage::Asked;
        Place::of(process)
    });
    if let Some(place) = place {
        say(library, task, &Word::Offer(place));
        // A task that has ended is forgotten again.
        watch(library, task);
    }
}

/// A word of another task has arrived.
pub(crate) fn heard(library: &'static Library, from: c_int, word: Word) {
    match word {
        Word::Offer(place) => offered(library, from, &place),
        Word::Accept(place) => {
            _ = process::with(|process| {
                let known = place.note(process, layout::are_near(from, library.own_tid()));
                let pair = process.pairs.pair(from);
                (pair.has_library, pair.known) = (true, known);
                if pair.stage == Stage::Asked {
                    pair.stage = Stage::Agreed;
                }
            });
        }
        Word::Switch => _ = process::with(|process| process.pairs.switched_by(from)),
    }
}

fn offered(library: &'static Library, from: c_int, place: &Place) {
    let own = library.own_tid();
    let accepted = process::with_opened(library, |process| {
        let pair = process.pairs.pair(from);
        pair.has_library = true;
        let stage = pair.stage;
        let is_crossed = stage == Stage::Asked && own < from;
        if is_crossed || !matches!(stage, Stage::New | Stage::Asked) {
            return None;
        }
        process.pairs.pair(from).known = place.note(process, layout::are_near(from, own));
        let connection = process.endpoint.connect_with_tag(&place.node, ENDPOINT, place.tag).ok()?;
        let pair = process.pairs.pair(from);
        (pair.stage, pair.connection) = (Stage::Agreed, Some(connection));
        Some(Place::of(process))
    });
    if let Some(Some(own_place)) = accepted {
        say(library, from, &Word::Accept(own_place));
    }
    watch(library, from);
}

/// Whether messages for this task go as active messages now. If they can from now on, its library hears so first.
pub(crate) fn is_switched(library: &Library, task: c_int) -> bool {
    let is_open = |process: &mut Process| {
        let (stage, connection) = process.pairs.stage(task);
        match (stage, connection) {
            (Stage::Switched, Some(_)) => (true, false),
            (Stage::Agreed, Some(connection)) => match process.endpoint.ready(connection) {
                Ok(()) => {
                    process.pairs.pair(task).stage = Stage::Switched;
                    process.pairs.counts.switches += 1;
                    (true, true)
                }
                Err(NotOpen::Connecting) => (false, false),
                Err(_) => {
                    process.end(task);
                    (false, false)
                }
            },
            _ => (false, false),
        }
    };
    let (is_switched, is_first) = process::with(is_open).unwrap_or_default();
    if is_first {
        say(library, task, &Word::Switch);
    }
    is_switched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_said() {
        let place = Place {
            node: "t40002-x".into(),
            address: "shm:a+udp:127.0.0.1:7".into(),
            link: Address([2, 0, 0, 0, 0, 7]),
            tag: 77,
        };
        for word in [Word::Offer(place.clone()), Word::Accept(place), Word::Switch] {
            assert_eq!(Word::parse(&word.bytes()), Some(word));
        }
    }

    #[test]
    fn what_another_version_says_is_none() {
        for bytes in
            [&b""[..], b"AM\x00\x02\x03", b"AM\x00\x04", b"AM\x00\x04\x04", b"AM\x00\x04\x03x", b"AM\x00\x04\x01short"]
        {
            assert_eq!(Word::parse(bytes), None);
        }
    }
}
