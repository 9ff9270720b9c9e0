//! One connection: its address, its hello, and the bytes that it receives.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use am_ring::Own;
use am_wire::Address;
use nix::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::deframer::Deframer;
use super::outbox::{HELLO_BYTES, Outbox};
use crate::{SocketOptions, setup};

/// A connection ends when bytes are not acknowledged for this long, or the peer does not answer for this long.
const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(10);
/// The most reads of one [`Connection::drain`].
const READS: usize = 64;

/// A connection that has sent a hello and no whole frame for this long may be closed to make room.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_millis(500);
/// A connection that has sent no whole frame for this long may be closed to make room. It is three beacons of a node
/// with default settings.
const QUIET_TIMEOUT: Duration = Duration::from_secs(15);

/// The start of a hello. It is no valid length of a frame, and not the start of another protocol. The last byte is the version.
const MAGIC: [u8; 8] = *b"\xffam-tcp\x01";

/// The first bytes that each side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) address: Address,
    /// The port on which the sender listens.
    pub(super) port: u16,
    /// The longest frame that the sender accepts.
    pub(super) max_frame: u32,
}

impl Hello {
    pub(super) fn emit(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..14].copy_from_slice(&self.address.0);
        bytes[14..16].copy_from_slice(&self.port.to_be_bytes());
        bytes[16..].copy_from_slice(&self.max_frame.to_be_bytes());
        bytes
    }

    /// Read a hello; `None` if the bytes are not one.
    pub(super) fn parse(bytes: &[u8; HELLO_BYTES]) -> Option<Hello> {
        let [m0, m1, m2, m3, m4, m5, m6, m7, a, b, c, d, e, f, p0, p1, l0, l1, l2, l3] = *bytes;
        let address = Address([a, b, c, d, e, f]);
        let makes_sense = [m0, m1, m2, m3, m4, m5, m6, m7] == MAGIC && !address.is_group() && address.to_u64() != 0;
        let (port, max_frame) = (u16::from_be_bytes([p0, p1]), u32::from_be_bytes([l0, l1, l2, l3]));
        makes_sense.then_some(Hello { address, port, max_frame })
    }

    /// Whether these first bytes can be the start of a hello. If not, the connection is closed at once.
    pub(super) fn is_prefix(bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic)
    }
}

/// The state of the hand-shake with the peer.
#[derive(Debug)]
pub(super) enum PeerState {
    /// This side has dialed, and its SYN has not been answered yet.
    Connecting,
    /// The peer's hello is incomplete: the bytes so far, and their number.
    Silent([u8; HELLO_BYTES], usize),
    /// The peer's hello has arrived.
    Known(Hello, Deframer),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Own<TcpStream>,
    pub(super) remote: SocketAddr,
    pub(super) peer: PeerState,
    pub(super) outbox: Outbox,
    /// How many addresses of the peer, beside the one of its hello, this connection carries frames for.
    pub(super) further_addresses: usize,
    pub(super) since: Instant,
    /// Whether a whole frame has arrived since the last tick, and when a tick last found that. Partial frames do not count,
    /// because a peer could send half a frame and never finish it.
    pub(super) had_frame: bool,
    pub(super) last_frame: Option<Instant>,
    /// Whether the socket may have bytes to read.
    pub(super) is_readable: bool,
    /// Whether epoll reports room in the socket.
    pub(super) watches_room: bool,
    /// The peer receives nothing more. Bytes that it has sent before may still arrive.
    pub(super) is_half_closed: bool,
    /// The node's introduction has been queued for this peer.
    pub(super) is_introduced: bool,
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
        let mut outbox = Outbox::new(hello.emit());
        // The dialing side sends its hello first, so that the other side can close a redundant connection without an answer.
        if is_dialed {
            outbox.queue_hello();
        }
        Connection {
            stream: stream.into(),
            remote,
            peer,
            outbox,
            further_addresses: 0,
            since: Instant::now(),
            had_frame: false,
            last_frame: None,
            is_readable: true,
            watches_room: is_dialed,
            is_half_closed: false,
            is_introduced: false,
        }
    }

    pub(super) fn hello(&self) -> Option<&Hello> {
        match &self.peer {
            PeerState::Known(hello, _) => Some(hello),
            _ => None,
        }
    }

    /// Whether this is the address of the peer's hello.
    pub(super) fn has_address(&self, address: Address) -> bool {
        self.hello().is_some_and(|hello| hello.address == address)
    }

    /// The rank of a connection that may be closed to make room: the lowest is closed first. `None` if it may not be closed.
    /// Connections without a hello come first, then those with a hello and no frame, then quiet ones. A live node sends its
    /// hello at once, and a beacon every few seconds.
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
        with_port(self.remote, hello.port)
    }

    /// Read more of the stream, with one system call.
    #[inline]
    pub(super) fn read(&mut self) -> ReadOutcome {
        let space = match &mut self.peer {
            PeerState::Known(_, deframer) => deframer.space(),
            PeerState::Silent(hello, have) => &mut hello[*have..],
            PeerState::Connecting => return ReadOutcome::Nothing,
        };
        if space.is_empty() {
            return ReadOutcome::Nothing;
        }
        match (&*self.stream).read(space) {
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
            PeerState::Known(_, deframer) => {
                deframer.advance(bytes);
                // All earlier whole frames were consumed before this read, so a whole frame is a new one.
                self.had_frame |= matches!(deframer.peek(), Ok(Some(_)));
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

    /// Whether everything has left this side, or the peer receives nothing more.
    pub(super) fn has_sent_all(&self) -> bool {
        if self.is_half_closed || self.hello().is_none() {
            return true;
        }
        let mut socket = [PollFd::new(&self.stream, PollFlags::OUT)];
        let is_over = poll(&mut socket, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err();
        is_over || (self.outbox.is_empty() && !socket[0].revents().is_empty())
    }

    /// Read and drop what has arrived.
    pub(super) fn drain(&self, bytes: &mut [u8]) {
        (0..READS).any(|_| !matches!((&*self.stream).read(bytes), Ok(1..)));
    }
}

/// The first pause before an address that does not answer is dialed again. It doubles each time, up to
/// [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(50);
/// The longest pause.
const MAX_BACKOFF: Duration = Duration::from_secs(3);

/// A peer address that the program has added.
#[derive(Debug)]
pub(super) struct PeerTarget {
    pub(super) at: SocketAddr,
    /// The connection that was dialed to it.
    pub(super) slot: Option<u32>,
    next_try: Instant,
    back_off: Duration,
    /// Why the last attempt failed, if the system says it.
    pub(super) error: Option<String>,
}

impl PeerTarget {
    pub(super) fn new(at: SocketAddr) -> PeerTarget {
        PeerTarget { at, slot: None, next_try: Instant::now(), back_off: MIN_BACKOFF, error: None }
    }

    /// Whether it is time to dial.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.slot.is_none() && now >= self.next_try
    }

    /// The connection has ended, or the dial has failed.
    pub(super) fn on_failed(&mut self, now: Instant) {
        self.slot = None;
        self.next_try = now + self.back_off;
        self.back_off = (2 * self.back_off).min(MAX_BACKOFF);
    }

    /// The peer has answered.
    pub(super) fn on_answered(&mut self) {
        (self.back_off, self.error) = (MIN_BACKOFF, None);
    }
}

/// Another port of the same address. A link-local address keeps its interface.
fn with_port(mut place: SocketAddr, port: u16) -> SocketAddr {
    place.set_port(port);
    place
}

/// Start to connect.
pub(super) fn dial(options: &SocketOptions, local: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = setup::socket(local, Type::STREAM, Protocol::TCP)?;
    if let Some(bytes) = options.buffer {
        setup::enlarge(&socket, bytes);
    }
    if !local.ip().is_unspecified() {
        // Use the listening socket's address, so that the peer can compute the address at which this side listens.
        socket.bind(&with_port(local, 0).into())?;
    }
    let is_under_way = |error: &io::Error| error.raw_os_error() == Some(Errno::EINPROGRESS as i32);
    socket.connect(&to.into()).or_else(|error| if is_under_way(&error) { Ok(()) } else { Err(error) })?;
    let stream = Socket::into(socket);
    configure(&stream, options)?;
    Ok(stream)
}

/// Set the options of a dialed or accepted connection.
pub(super) fn configure(stream: &TcpStream, options: &SocketOptions) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(DEAD_PEER_TIMEOUT))?;
    let alive = TcpKeepalive::new().with_time(DEAD_PEER_TIMEOUT).with_interval(DEAD_PEER_TIMEOUT / 4);
    socket.set_tcp_keepalive(&alive)?;
    if let Some(time) = options.busy_poll {
        // Cannot fail: it was allowed for the listening socket.
        let _ = socket.set_busy_poll(time.as_micros() as u32);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

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
        let PeerState::Known(_, deframer) = &mut near.peer else { unreachable!("its hello was set") };
        deframer.consume();
        (near.had_frame, near.last_frame) = (false, Some(begun));
        far.write_all(&[8; 49]).unwrap();
        assert_eq!((near.read(), near.eviction_rank(begun + QUIET_TIMEOUT)), (ReadOutcome::Bytes, None));
        assert_eq!(near.eviction_rank(begun + 2 * QUIET_TIMEOUT), Some((2, begun)));
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let hello = Hello { address: Address([2, 0, 0, 0, 0, 9]), port: 7000, max_frame: 65_000 };
        assert_eq!(Hello::parse(&hello.emit()), Some(hello));
        assert!(Hello::is_prefix(&hello.emit()) && Hello::is_prefix(&[]) && !Hello::is_prefix(b"GET / HTTP"));
        for wrong in 0..9 {
            let mut bytes = hello.emit();
            bytes[wrong] ^= 1;
            assert_eq!(Hello::parse(&bytes), None, "byte {wrong}");
        }
    }

    #[test]
    fn tries_become_rarer_until_somebody_answers() {
        let (mut target, mut now) = (PeerTarget::new("127.0.0.1:1".parse().unwrap()), Instant::now());
        let mut waits = vec![];
        for _ in 0..9 {
            assert!(target.is_due(now));
            target.on_failed(now);
            assert!(!target.is_due(now));
            waits.push(target.next_try - now);
            now = target.next_try;
        }
        assert!(waits.windows(2).all(|two| two[0] <= two[1]) && waits[8] == MAX_BACKOFF, "{waits:?}");
        target.on_answered();
        target.on_failed(now);
        assert_eq!(target.next_try - now, MIN_BACKOFF);
    }
}
