//! One connection, and the bytes that it receives.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::deframer::Deframer;
use super::hello::{HELLO_BYTES, Hello};
use super::outbox::Outbox;

/// A connection that has sent a hello and no whole frame for this long may be closed to make room.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_millis(500);
/// A connection that has sent no whole frame for this long may be closed to make room. It is three beacons of a node
/// with default settings.
const QUIET_TIMEOUT: Duration = Duration::from_secs(15);

/// What is known of the peer.
#[derive(Debug)]
pub(super) enum PeerState {
    /// Our SYN has not been answered yet.
    Connecting,
    /// Its hello is incomplete: the bytes so far, and their number.
    Silent([u8; HELLO_BYTES], usize),
    /// Its hello has arrived.
    Known(Hello, Deframer),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) peer: PeerState,
    pub(super) outbox: Outbox,
    pub(super) since: Instant,
    /// Whether a whole frame has arrived since the last tick, and when a tick last found one. Partial frames do not
    /// count: a peer could send half a frame and never finish it.
    pub(super) had_frame: bool,
    pub(super) last_frame: Option<Instant>,
    /// Whether the socket may have bytes to read.
    pub(super) is_readable: bool,
    /// The peer receives nothing more. Bytes that it has sent before may still arrive.
    pub(super) is_half_closed: bool,
}

/// The result of reading from the socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    Bytes,
    Nothing,
    /// The peer has closed the connection, or it has failed.
    Closed,
    /// The bytes are not of our protocol.
    Garbage,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, remote: SocketAddr, is_dialed: bool, hello: &Hello) -> Connection {
        let peer = if is_dialed { PeerState::Connecting } else { PeerState::Silent([0; HELLO_BYTES], 0) };
        let mut out = Outbox::new(hello.emit());
        // The dialing side sends its hello first. The other side may refuse a second connection.
        if is_dialed {
            out.queue_hello();
        }
        let (since, spoke, heard) = (Instant::now(), false, None);
        Connection {
            stream,
            remote,
            peer,
            outbox: out,
            since,
            had_frame: spoke,
            last_frame: heard,
            is_readable: true,
            is_half_closed: false,
        }
    }

    pub(super) fn hello(&self) -> Option<&Hello> {
        match &self.peer {
            PeerState::Known(hello, _) => Some(hello),
            _ => None,
        }
    }

    /// Whether the connection may be closed to make room, and its rank: the lowest is closed first. Connections without
    /// a hello come before those with a hello and no frame, and these before quiet ones. A live node sends its hello at
    /// once, and a beacon every few seconds.
    pub(super) fn eviction_rank(&self, now: Instant) -> Option<(u8, Instant)> {
        let is_over = |since: Instant, time| now.saturating_duration_since(since) > time;
        match (self.hello(), self.last_frame) {
            (None, _) => Some((0, self.since)),
            (Some(_), None) => (!self.had_frame && is_over(self.since, FIRST_FRAME_TIMEOUT)).then_some((1, self.since)),
            (Some(_), Some(heard)) => (!self.had_frame && is_over(heard, QUIET_TIMEOUT)).then_some((2, heard)),
        }
    }

    /// The address at which the peer listens, if known.
    pub(super) fn listen_address(&self) -> Option<SocketAddr> {
        self.hello().map(|hello| self.listen_address_of(hello))
    }

    /// The address at which the sender of this hello listens.
    pub(super) fn listen_address_of(&self, hello: &Hello) -> SocketAddr {
        SocketAddr::new(self.remote.ip(), hello.port)
    }

    /// Read more of the stream, with one system call.
    #[inline]
    pub(super) fn read(&mut self) -> ReadOutcome {
        let space = match &mut self.peer {
            PeerState::Known(_, cutter) => cutter.space(),
            PeerState::Silent(hello, have) => &mut hello[*have..],
            PeerState::Connecting => return ReadOutcome::Nothing,
        };
        if space.is_empty() {
            return ReadOutcome::Nothing;
        }
        match (&self.stream).read(space) {
            Ok(0) => ReadOutcome::Closed,
            Ok(bytes) => self.filled(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readable = false;
                ReadOutcome::Nothing
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => ReadOutcome::Nothing,
            Err(_) => ReadOutcome::Closed,
        }
    }

    #[inline]
    fn filled(&mut self, bytes: usize) -> ReadOutcome {
        match &mut self.peer {
            PeerState::Known(_, cutter) => {
                cutter.advance(bytes);
                // All earlier whole frames have been taken, so this one is new.
                self.had_frame |= matches!(cutter.peek(), Ok(Some(_)));
            }
            PeerState::Silent(hello, have) => {
                *have += bytes;
                if !Hello::is_prefix(&hello[..*have]) || (*have == HELLO_BYTES && Hello::parse(hello).is_none()) {
                    return ReadOutcome::Garbage;
                }
            }
            PeerState::Connecting => (),
        }
        ReadOutcome::Bytes
    }

    /// The peer's hello, once it is complete.
    pub(super) fn complete_hello(&self) -> Option<Hello> {
        match &self.peer {
            PeerState::Silent(hello, HELLO_BYTES) => Hello::parse(hello),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use am_wire::Address;

    use super::super::deframer::prefix;
    use super::*;

    #[test]
    fn half_a_frame_is_nothing_and_one_that_stalls_is_quiet_since_the_last_whole_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, remote) = listener.accept().unwrap();
        let hello = Hello { address: Address([2, 0, 0, 0, 0, 9]), port: 9, max_frame: 1500 };
        let mut near = Connection::new(stream, remote, false, &hello);
        near.peer = PeerState::Known(hello, Deframer::new(1500));
        let begun = near.since;
        far.write_all(&[&prefix(100)[..], &[7; 50]].concat()).unwrap();
        assert_eq!((near.read(), near.eviction_rank(begun)), (ReadOutcome::Bytes, None));
        assert_eq!(near.eviction_rank(begun + 2 * FIRST_FRAME_TIMEOUT), Some((1, begun)));
        far.write_all(&[&[7; 50][..], &prefix(100), &[8; 50]].concat()).unwrap();
        assert_eq!((near.read(), near.eviction_rank(begun + 2 * FIRST_FRAME_TIMEOUT)), (ReadOutcome::Bytes, None));
        // The frame is taken, and a tick has seen it.
        let PeerState::Known(_, cutter) = &mut near.peer else { unreachable!("its hello was set") };
        cutter.consume();
        (near.had_frame, near.last_frame) = (false, Some(begun));
        far.write_all(&[8; 49]).unwrap();
        assert_eq!((near.read(), near.eviction_rank(begun + QUIET_TIMEOUT)), (ReadOutcome::Bytes, None));
        assert_eq!(near.eviction_rank(begun + 2 * QUIET_TIMEOUT), Some((2, begun)));
    }
}
