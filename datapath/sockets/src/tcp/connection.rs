//! One connection, and the bytes that it receives.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::cutter::Cutter;
use super::hello::{HELLO, Hello};
use super::outbox::Outbox;

/// A connection that has sent a hello and no whole frame for this long may be closed to make room.
const FIRST_WORD: Duration = Duration::from_millis(500);
/// A connection that has sent no whole frame for this long may be closed to make room. It is three beacons of a node
/// with default settings.
const QUIET: Duration = Duration::from_secs(15);

/// What is known of the peer.
#[derive(Debug)]
pub(super) enum Peer {
    /// Our SYN has not been answered yet.
    Connecting,
    /// Its hello is incomplete: the bytes so far, and their number.
    Silent([u8; HELLO], usize),
    /// Its hello has arrived.
    Known(Hello, Cutter),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) peer: Peer,
    pub(super) out: Outbox,
    pub(super) since: Instant,
    /// Whether a whole frame has arrived since the last tick, and when a tick last found one. Partial frames do not
    /// count: a peer could send half a frame and never finish it.
    pub(super) spoke: bool,
    pub(super) heard: Option<Instant>,
    /// Whether the socket may have bytes to read.
    pub(super) ready: bool,
    /// The peer receives nothing more. Bytes that it has sent before may still arrive.
    pub(super) is_deaf: bool,
}

/// The result of reading from the socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    Bytes,
    Nothing,
    /// The peer has closed the connection, or it has failed.
    Over,
    /// The bytes are not of our protocol.
    Garbage,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, remote: SocketAddr, is_dialed: bool, hello: &Hello) -> Connection {
        let peer = if is_dialed { Peer::Connecting } else { Peer::Silent([0; HELLO], 0) };
        let mut out = Outbox::new(hello.emit());
        // The dialing side sends its hello first. The other side may refuse a second connection.
        if is_dialed {
            out.greet();
        }
        let (since, spoke, heard) = (Instant::now(), false, None);
        Connection { stream, remote, peer, out, since, spoke, heard, ready: true, is_deaf: false }
    }

    pub(super) fn hello(&self) -> Option<&Hello> {
        match &self.peer {
            Peer::Known(hello, _) => Some(hello),
            _ => None,
        }
    }

    /// Whether the connection may be closed to make room, and its rank: the lowest is closed first. Connections without
    /// a hello come before those with a hello and no frame, and these before quiet ones. A live node sends its hello at
    /// once, and a beacon every few seconds.
    pub(super) fn spare(&self, now: Instant) -> Option<(u8, Instant)> {
        let is_over = |since: Instant, time| now.saturating_duration_since(since) > time;
        match (self.hello(), self.heard) {
            (None, _) => Some((0, self.since)),
            (Some(_), None) => (!self.spoke && is_over(self.since, FIRST_WORD)).then_some((1, self.since)),
            (Some(_), Some(heard)) => (!self.spoke && is_over(heard, QUIET)).then_some((2, heard)),
        }
    }

    /// The address at which the peer listens, if known.
    pub(super) fn place(&self) -> Option<SocketAddr> {
        self.hello().map(|hello| self.place_of(hello))
    }

    /// The address at which the sender of this hello listens.
    pub(super) fn place_of(&self, hello: &Hello) -> SocketAddr {
        SocketAddr::new(self.remote.ip(), hello.port)
    }

    /// Read more of the stream, with one system call.
    #[inline]
    pub(super) fn look(&mut self) -> Look {
        let space = match &mut self.peer {
            Peer::Known(_, cutter) => cutter.space(),
            Peer::Silent(hello, have) => &mut hello[*have..],
            Peer::Connecting => return Look::Nothing,
        };
        if space.is_empty() {
            return Look::Nothing;
        }
        match (&self.stream).read(space) {
            Ok(0) => Look::Over,
            Ok(bytes) => self.filled(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.ready = false;
                Look::Nothing
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Look::Nothing,
            Err(_) => Look::Over,
        }
    }

    #[inline]
    fn filled(&mut self, bytes: usize) -> Look {
        match &mut self.peer {
            Peer::Known(_, cutter) => {
                cutter.filled(bytes);
                // All earlier whole frames have been taken, so this one is new.
                self.spoke |= matches!(cutter.peek(), Ok(Some(_)));
            }
            Peer::Silent(hello, have) => {
                *have += bytes;
                if !Hello::can_start(&hello[..*have]) || (*have == HELLO && Hello::parse(hello).is_none()) {
                    return Look::Garbage;
                }
            }
            Peer::Connecting => (),
        }
        Look::Bytes
    }

    /// The peer's hello, once it is complete.
    pub(super) fn greeting(&self) -> Option<Hello> {
        match &self.peer {
            Peer::Silent(hello, HELLO) => Hello::parse(hello),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use am_wire::Address;

    use super::super::cutter::prefix;
    use super::*;

    #[test]
    fn half_a_frame_is_nothing_and_one_that_stalls_is_quiet_since_the_last_whole_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, remote) = listener.accept().unwrap();
        let hello = Hello { address: Address([2, 0, 0, 0, 0, 9]), port: 9, max_frame: 1500 };
        let mut near = Connection::new(stream, remote, false, &hello);
        near.peer = Peer::Known(hello, Cutter::new(1500));
        let begun = near.since;
        far.write_all(&[&prefix(100)[..], &[7; 50]].concat()).unwrap();
        assert_eq!((near.look(), near.spare(begun)), (Look::Bytes, None));
        assert_eq!(near.spare(begun + 2 * FIRST_WORD), Some((1, begun)));
        far.write_all(&[&[7; 50][..], &prefix(100), &[8; 50]].concat()).unwrap();
        assert_eq!((near.look(), near.spare(begun + 2 * FIRST_WORD)), (Look::Bytes, None));
        // The frame is taken, and a tick has seen it.
        let Peer::Known(_, cutter) = &mut near.peer else { unreachable!("its hello was set") };
        cutter.next();
        (near.spoke, near.heard) = (false, Some(begun));
        far.write_all(&[8; 49]).unwrap();
        assert_eq!((near.look(), near.spare(begun + QUIET)), (Look::Bytes, None));
        assert_eq!(near.spare(begun + 2 * QUIET), Some((2, begun)));
    }
}
