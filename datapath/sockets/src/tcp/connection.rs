//! One connection, from the first packet to the last.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::cutter::Cutter;
use super::hello::{HELLO, Hello};
use super::outbox::Outbox;

/// A connection with a hello and no whole frame after so long may make room for another.
const FIRST_WORD: Duration = Duration::from_millis(500);
/// So may one that has brought no whole frame for so long: three beacons of a node with the usual settings.
const QUIET: Duration = Duration::from_secs(15);

/// Who is at the other end.
#[derive(Debug)]
pub(super) enum Peer {
    /// Our own SYN has not been answered yet.
    Connecting,
    /// We have not heard all of its hello: so much of it.
    Silent([u8; HELLO], usize),
    /// It has said who it is.
    Known(Hello, Cutter),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) peer: Peer,
    pub(super) out: Outbox,
    pub(super) since: Instant,
    /// A whole frame came since this was last looked at, and when that was last so. What is not whole does not count: it
    /// could be the half of a frame that never ends.
    pub(super) spoke: bool,
    pub(super) heard: Option<Instant>,
    /// The socket may have bytes for us.
    pub(super) ready: bool,
    /// The other side hears nothing more; what it has said before may still be on its way.
    pub(super) is_deaf: bool,
}

/// What a look at the socket has brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    Bytes,
    Nothing,
    /// The other side is gone.
    Over,
    /// The other side is none of ours.
    Garbage,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, remote: SocketAddr, is_dialed: bool, hello: &Hello) -> Connection {
        let peer = if is_dialed { Peer::Connecting } else { Peer::Silent([0; HELLO], 0) };
        let mut out = Outbox::new(hello.emit());
        // Who is dialed hears first who dials, and may not want another connection.
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

    /// Whether it could make room for another, now, and how soon: first one without a hello, then one with a hello and
    /// no frame. A node that is there to talk does so at once, and later says at least every few seconds where it is.
    pub(super) fn spare(&self, now: Instant) -> Option<(u8, Instant)> {
        let is_over = |since: Instant, time| now.saturating_duration_since(since) > time;
        match (self.hello(), self.heard) {
            (None, _) => Some((0, self.since)),
            (Some(_), None) => (!self.spoke && is_over(self.since, FIRST_WORD)).then_some((1, self.since)),
            (Some(_), Some(heard)) => (!self.spoke && is_over(heard, QUIET)).then_some((2, heard)),
        }
    }

    /// The place where it listens, as far as we can know.
    pub(super) fn place(&self) -> Option<SocketAddr> {
        self.hello().map(|hello| self.place_of(hello))
    }

    /// The place where who says this listens.
    pub(super) fn place_of(&self, hello: &Hello) -> SocketAddr {
        SocketAddr::new(self.remote.ip(), hello.port)
    }

    /// More of the stream, with one system call.
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
                // All that were whole before have been taken.
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

    /// What the other side has said, once it is complete.
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
        // Taken, and seen by a tick.
        let Peer::Known(_, cutter) = &mut near.peer else { unreachable!("its hello was set") };
        cutter.next();
        (near.spoke, near.heard) = (false, Some(begun));
        far.write_all(&[8; 49]).unwrap();
        assert_eq!((near.look(), near.spare(begun + QUIET)), (Look::Bytes, None));
        assert_eq!(near.spare(begun + 2 * QUIET), Some((2, begun)));
    }
}
