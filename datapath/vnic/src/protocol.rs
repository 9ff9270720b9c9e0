//! What a program and the daemon write to each other on the socket: packets of at most [`MAX_PACKET`] bytes.
//!
//! ```text
//!   program                                daemon
//!     │ Hello: version, frame, EtherType, ───▶│  the kernel says which process and user this is (SO_PEERCRED)
//!     │        secret of an earlier run,      │
//!     │        name of the node,              │
//!     │        whether it can use a queue     │
//!     │◀─── Welcome: address, sizes, secret, ─│  with the descriptor of the region. If the program gets a queue, also
//!     │              shape of a queue         │  with those of the queue's socket and memory
//!     │◀─── or Refused: why, and what to do ──│
//!     ╎ frames, through the region            ╎
//!     │ Heartbeat: a frame ──────────────────▶│  the daemon sends it while the program reads no frames; at once, if repeated
//!     │ Wake ────────────────────────────────▶│  the daemon may be asleep
//!     │◀───────────────────────────────── Wake│  the program may be asleep
//!     │◀──────────── PeerGone, Trouble, Detached
//! ```
//!
//! All numbers are little-endian. Both ends are on one machine.

use am_transport::QueueShape;
use am_wire::control::Name;
use am_wire::{Address, EtherType};

/// The version of packets and region. Program and daemon must have the same.
pub const VERSION: u32 = 5;

/// The most bytes of a packet.
pub const MAX_PACKET: usize = 512;

const MAGIC: &[u8; 4] = b"amd\x01";

/// The proof that a program held a port before the daemon restarted. The daemon chooses it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Secret(pub [u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The first packet of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's [`VERSION`].
    pub version: u32,
    /// The longest frame that the program wants, in bytes from the destination address on. `None`: the wire's.
    pub max_frame: Option<u32>,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// The secret of the port that it had.
    pub secret: Option<Secret>,
    /// Whether the program can use a queue of the wire's NIC.
    pub can_use_queue: bool,
    /// The name that the program's node will have, if it is known.
    pub name: Option<Name>,
}

/// The answer to a program that may attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The program's link address.
    pub address: Address,
    /// The longest frame, in bytes from the destination address on.
    pub max_frame: u32,
    /// Names this attachment in the lanes' sessions.
    pub session: u32,
    /// For the next attachment.
    pub secret: Secret,
    /// The queue that the program has for itself.
    pub queue: Option<QueueShape>,
    /// Whether a broadcast reaches each node of the wire.
    pub hears_all: bool,
    /// The transport that the daemon serves, for users: `xdp:eth1, zero-copy`.
    pub wire: String,
}

/// A packet of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromDaemon {
    /// The program is attached. The region's descriptor comes with it, and those of the queue's socket and memory.
    Welcome(Welcome),
    /// The program may not attach: why, and what to do.
    Refused(String),
    /// Frames have arrived, or there is room again.
    Wake,
    /// The peer at this address has ended.
    PeerGone(Address),
    /// The link error. Empty when frames leave and arrive again.
    Trouble(String),
    /// The daemon has ended this attachment: why. The program must not attach again.
    Detached(String),
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn secret(&mut self) -> Option<Option<Secret>> {
        self.array().map(|bytes| (bytes != [0; 16]).then_some(Secret(bytes)))
    }

    fn queue(&mut self) -> Option<Option<QueueShape>> {
        let [queue, chunk, chunks] = [self.number()?, self.number()?, self.number()?];
        let [entries, zero_copy] = [self.number()?, self.number()?];
        let shape = QueueShape { queue, chunk, chunks, entries, zero_copy: zero_copy == 1 };
        Some((chunk != 0).then_some(shape))
    }

    /// The rest, as text without control characters: programs print it.
    fn text(&self) -> Option<String> {
        let text = std::str::from_utf8(self.0).ok()?;
        (!text.chars().any(char::is_control)).then(|| text.to_owned())
    }
}

impl Hello {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let secret = self.secret.map_or([0; 16], |secret| secret.0);
        let numbers = [self.version, self.max_frame.unwrap_or(0), self.ethertype.hidden().into()];
        let name = self.name.as_ref().map_or("", Name::as_str).as_bytes();
        [&MAGIC[..], numbers.map(u32::to_le_bytes).as_flattened(), &secret, &[self.can_use_queue.into()], name].concat()
    }

    /// Read a packet. `None` if the bytes are no Hello. If the version is another one, only the version is read.
    pub fn from_bytes(bytes: &[u8]) -> Option<Hello> {
        let mut reader = Reader(bytes.strip_prefix(MAGIC)?);
        let version = reader.number()?;
        if version != VERSION {
            let ethertype = EtherType::DEFAULT;
            let (max_frame, secret, name) = (None, None, None);
            return Some(Hello { version, max_frame, ethertype, secret, can_use_queue: false, name });
        }
        let max_frame = Some(reader.number()?).filter(|frame| *frame != 0);
        let ethertype = EtherType::new(reader.number()?.try_into().ok()?)?;
        let secret = reader.secret()?;
        let can_use_queue = reader.array()? != [0];
        let name = match std::str::from_utf8(reader.0).ok()? {
            "" => None,
            name => Some(Name::new(name)?),
        };
        Some(Hello { version, max_frame, ethertype, secret, can_use_queue, name })
    }
}

/// The first byte of each packet of the daemon.
const WELCOME: u8 = b'w';
const REFUSED: u8 = b'r';
const WAKE: u8 = b'k';
const PEER_GONE: u8 = b'g';
const TROUBLE: u8 = b't';
const DETACHED: u8 = b'd';

/// The first byte of a packet with a heartbeat.
const HEARTBEAT: u8 = b'h';

/// The packet with this heartbeat.
pub(crate) fn heartbeat_packet(frame: &[u8]) -> Vec<u8> {
    [&[HEARTBEAT], frame].concat()
}

/// The heartbeat of a packet from a program.
pub(crate) fn heartbeat_in(packet: &[u8]) -> Option<&[u8]> {
    packet.split_first().filter(|(code, _)| **code == HEARTBEAT).map(|(_, frame)| frame)
}

/// The packet that wakes the other end.
pub(crate) const WAKE_PACKET: &[u8] = &[WAKE];

impl FromDaemon {
    /// Its bytes, at most [`MAX_PACKET`]: a longer text is cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = |code: u8, text: &str| [&[code], cut(text, MAX_PACKET - 1).as_bytes()].concat();
        match self {
            FromDaemon::Welcome(welcome) => welcome.to_bytes(),
            FromDaemon::Refused(why) => text(REFUSED, why),
            FromDaemon::Wake => WAKE_PACKET.to_vec(),
            FromDaemon::PeerGone(address) => [&[PEER_GONE], &address.0[..]].concat(),
            FromDaemon::Trouble(why) => text(TROUBLE, why),
            FromDaemon::Detached(why) => text(DETACHED, why),
        }
    }

    /// Read a packet. `None` if the bytes are no packet.
    pub fn from_bytes(bytes: &[u8]) -> Option<FromDaemon> {
        let (code, rest) = bytes.split_first()?;
        let mut reader = Reader(rest);
        match *code {
            WELCOME => Welcome::from_bytes(rest).map(FromDaemon::Welcome),
            REFUSED => reader.text().map(FromDaemon::Refused),
            WAKE => rest.is_empty().then_some(FromDaemon::Wake),
            PEER_GONE => {
                let address = Address(reader.array()?);
                reader.0.is_empty().then_some(FromDaemon::PeerGone(address))
            }
            TROUBLE => reader.text().map(FromDaemon::Trouble),
            DETACHED => reader.text().map(FromDaemon::Detached),
            _ => None,
        }
    }
}

/// The first characters of a text, in at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    ends.into_iter().find_map(|end| text.get(..end)).unwrap_or_default()
}

impl Welcome {
    fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.max_frame, self.session, self.hears_all.into()].map(u32::to_le_bytes);
        let wire = cut(&self.wire, MAX_PACKET / 2).as_bytes();
        let queue = queue_numbers(self.queue).map(u32::to_le_bytes);
        [&[WELCOME], &self.address.0[..], numbers.as_flattened(), &self.secret.0, queue.as_flattened(), wire].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Welcome> {
        let mut reader = Reader(bytes);
        let address = Address(reader.array()?);
        let [max_frame, session, hears_all] = [reader.number()?, reader.number()?, reader.number()?];
        let secret = reader.secret()??;
        let hears_all = [false, true].into_iter().find(|bit| u32::from(*bit) == hears_all)?;
        let queue = reader.queue()?;
        Some(Welcome { address, max_frame, session, secret, queue, hears_all, wire: reader.text()? })
    }
}

/// The shape of a queue in a packet. Zeros stand for no queue.
fn queue_numbers(queue: Option<QueueShape>) -> [u32; 5] {
    let numbers =
        |QueueShape { queue, chunk, chunks, entries, zero_copy }| [queue, chunk, chunks, entries, zero_copy.into()];
    queue.map_or([0; 5], numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let secret = Secret([7; 16]);
        let address = Address([2, 0, 0, 0, 0, 9]);
        for secret in [None, Some(secret)] {
            for max_frame in [None, Some(1514)] {
                let can_use_queue = secret.is_some();
                let (version, ethertype, name) =
                    (VERSION, EtherType::DEFAULT, Name::new("alpha").filter(|_| can_use_queue));
                let hello = Hello { version, max_frame, ethertype, secret, can_use_queue, name };
                assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
            }
        }
        let wire = "udp:127.0.0.1:7, 1 socket".to_owned();
        let shape = QueueShape { queue: 1, chunk: 2048, chunks: 4096, entries: 1024, zero_copy: true };
        let welcome = Welcome { address, max_frame: 1514, session: 3, secret, queue: None, hears_all: true, wire };
        for packet in [
            FromDaemon::Welcome(welcome.clone()),
            FromDaemon::Welcome(Welcome { queue: Some(shape), ..welcome }),
            FromDaemon::Refused("no".into()),
            FromDaemon::Wake,
            FromDaemon::PeerGone(Address([0xff; 6])),
            FromDaemon::Trouble(String::new()),
            FromDaemon::Detached("forgeries".into()),
        ] {
            assert_eq!(FromDaemon::from_bytes(&packet.to_bytes()), Some(packet));
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let bytes = FromDaemon::Refused("é".repeat(MAX_PACKET)).to_bytes();
        assert_eq!(bytes.len(), MAX_PACKET - 1);
        assert!(FromDaemon::from_bytes(&bytes).is_some());
    }

    #[test]
    fn other_bytes_are_no_packet() {
        let ethertype = EtherType::DEFAULT;
        let hello =
            Hello { version: VERSION, max_frame: None, ethertype, secret: None, can_use_queue: false, name: None };
        let good = hello.to_bytes();
        for cut in 0..good.len() {
            assert_eq!(Hello::from_bytes(&good[..cut]), None, "{cut}");
        }
        assert_eq!(Hello::from_bytes(&[&good[..], &[0]].concat()), None);
        let newer = Hello { version: VERSION + 1, ..hello };
        assert_eq!(Hello::from_bytes(&newer.to_bytes()), Some(newer), "its version is read, so that it can be refused");
        for bytes in [&b""[..], b"x", b"kk", b"g12345", b"g1234567", b"wshort", b"r\x1b[31m", b"t\xff"] {
            assert_eq!(FromDaemon::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
