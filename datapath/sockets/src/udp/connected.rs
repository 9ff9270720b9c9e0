//! The second socket: connected to one peer, and bound to the same place as the one that is for everybody.
//!
//! The kernel gives a datagram to the socket that says most about it. So what the peer sends arrives here, and everything
//! else at the shared socket. Here nobody need ask the kernel whom a datagram is from, and the kernel need not
//! look for the way to the peer each time.
//!
//! ```text
//!           bind              connect
//!   fresh ───────▶ everybody's ──────▶ the peer's ──▶ nobody's: connected to our own place
//!                  for microseconds        ▲              │
//!                                          └──────────────┘
//! ```
//!
//! What arrives between two steps stays in the queue it came to. Nothing of it is lost, and none of it is taken
//! for the peer's: until it must be over, and the queue was empty then, each datagram is read with its sender's place.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{SendFlags, SocketAddrAny, bind, connect, connect_unspec, send};

use super::receive::Stage;

/// A processor that was about to put a datagram into a queue has done so by then.
const SETTLES: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Connected {
    socket: Arc<OwnedFd>,
    /// The shared socket's place, and so this one's.
    local: SocketAddr,
    is_bound: bool,
    peer: Option<Peer>,
    /// Without a peer: whether it is nobody's, or still whose it was, or everybody's.
    is_parted: bool,
    /// When nothing older than the last change can come to the queue, until that is empty then.
    settles: Option<Instant>,
}

#[derive(Debug)]
struct Peer {
    at: SocketAddr,
    raw: SocketAddrAny,
}

impl Connected {
    /// Of a socket that is set up as the shared one is, but for GRO, and not bound.
    pub(super) fn new(socket: Arc<OwnedFd>, local: SocketAddr) -> Connected {
        Connected { socket, local, is_bound: false, peer: None, is_parted: false, settles: None }
    }

    pub(super) fn is_bound(&self) -> bool {
        self.is_bound
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer.as_ref().map(|peer| peer.at)
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.socket
    }

    /// From now on what this peer sends arrives here.
    ///
    /// # Errors
    /// The system's. Then it is nobody's, as far as it is in use.
    pub(super) fn connect(&mut self, peer: SocketAddr, shared: &UdpSocket) -> io::Result<()> {
        self.bind(shared)?;
        if let Err(error) = self.point_at(peer) {
            self.part();
            return Err(error);
        }
        self.peer = Some(Peer { at: peer, raw: peer.as_any() });
        Ok(())
    }

    /// What arrives from now on does not arrive here.
    pub(super) fn part(&mut self) {
        self.peer = None;
        let own = match self.local.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            _ => self.local.ip(),
        };
        let mut nobody = self.local;
        nobody.set_ip(own);
        // There may be no way to there, while addresses change: then what should not arrives here all the same.
        self.is_parted = self.point_at(nobody).is_ok();
    }

    /// To the place of the shared socket, which allows it for that moment only, and then only to sockets of the same user: with
    /// `SO_REUSEADDR` anybody on this host who tries all the time would get in.
    fn bind(&mut self, shared: &UdpSocket) -> io::Result<()> {
        if self.is_bound {
            return Ok(());
        }
        set_socket_reuseport(&*self.socket, true)?;
        set_socket_reuseport(shared, true)?;
        let bound = bind(&*self.socket, &self.local);
        set_socket_reuseport(shared, false)?;
        set_socket_reuseport(&*self.socket, false)?;
        self.is_bound = bound.is_ok();
        Ok(bound?)
    }

    fn point_at(&mut self, peer: SocketAddr) -> io::Result<()> {
        self.settles = Some(Instant::now() + SETTLES);
        if self.local.ip().is_unspecified() {
            // The own address is the one on the way to the peer, not to the peer before.
            connect_unspec(&*self.socket)?;
        }
        Ok(connect(&*self.socket, &peer)?)
    }

    /// Look for one datagram.
    ///
    /// # Errors
    /// The socket is none any more.
    #[inline]
    pub(super) fn look(&self, stage: &mut Stage) -> io::Result<()> {
        match &self.peer {
            Some(peer) if self.settles.is_none() => stage.look_from(peer.at, &self.socket),
            _ => stage.look_aside(&self.socket),
        }
    }

    /// Whether nothing that is older than the last change comes any more, and what has come may still be here.
    #[inline]
    pub(super) fn may_settle(&self) -> bool {
        self.settles.is_some_and(|at| Instant::now() >= at)
    }

    /// It might, and then there was nothing here. Whether all is as it should be: what could not be done is tried again.
    #[cold]
    pub(super) fn settle(&mut self) -> bool {
        self.settles = None;
        let is_done = self.peer.is_some() || self.is_parted;
        if !is_done {
            self.part();
        }
        is_done
    }

    /// Send to the peer, if this is the peer. What fails is for the shared socket to try again: it knows how things
    /// fail, and an error here may be an answer to a datagram that left before.
    #[inline]
    pub(super) fn send(&self, to: &SocketAddrAny, bytes: &[u8], flags: SendFlags) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.raw == *to) && send(&self.socket, bytes, flags).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use quinn_udp::UdpSocketState;

    use super::super::favour::Change;
    use super::super::open;
    use super::super::sockets::Sockets;
    use super::*;
    use crate::Options;

    const LOCAL: [&str; 4] = ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"];

    fn bound(local: &str) -> (UdpSocket, Connected, Stage) {
        let options = Options { gro: false, ..Options::new(local.parse().unwrap()) };
        let shared = open::bind(&options).unwrap();
        let state = UdpSocketState::new((&shared).into()).unwrap();
        open::simplify(&shared, &options, false).unwrap();
        let shared: UdpSocket = shared.into();
        let second = Arc::new(open::second(&options).unwrap());
        let connected = Connected::new(second, shared.local_addr().unwrap());
        (shared, connected, Stage::new(state, false, 100))
    }

    fn send_it(from: &[&UdpSocket], to: SocketAddr) {
        from.iter().for_each(|from| assert_eq!(from.send_to(b"it", to).unwrap(), 2));
    }

    /// Somebody else on this host, and where the shared socket is for them.
    fn somebody(shared: &UdpSocket) -> (UdpSocket, SocketAddr) {
        let at = shared.local_addr().unwrap();
        let own: IpAddr = if at.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        (UdpSocket::bind((own, 0)).unwrap(), (own, at.port()).into())
    }

    /// All that is at the second socket: what it is, and whom it is said to be from.
    fn all(connected: &Connected, stage: &mut Stage) -> Vec<(Vec<u8>, SocketAddr)> {
        let mut found = vec![];
        loop {
            connected.look(stage).unwrap();
            let Some((bytes, from)) = stage.peek() else { return found };
            found.push((bytes.to_vec(), from));
            stage.next();
        }
    }

    #[test]
    fn what_comes_before_it_is_connected_is_its_senders() {
        for local in LOCAL {
            let (shared, mut connected, mut stage) = bound(local);
            let ((peer, there), (other, _)) = (somebody(&shared), somebody(&shared));
            connected.bind(&shared).unwrap();
            other.send_to(b"early", there).unwrap();
            connected.connect(peer.local_addr().unwrap(), &shared).unwrap();
            other.send_to(b"late", there).unwrap();
            peer.send_to(b"from the peer", there).unwrap();
            let its = |bytes: &[u8], from: &UdpSocket| (bytes.to_vec(), from.local_addr().unwrap());
            let mut here = all(&connected, &mut stage);
            assert_eq!(here.pop(), Some(its(b"from the peer", &peer)), "{local}");
            // What is early arrives at either, as the system likes.
            while here.len() < 2 {
                stage.look(&shared).unwrap();
                here.extend(std::iter::from_fn(|| {
                    let next = stage.peek().map(|(bytes, from)| (bytes.to_vec(), from));
                    next.inspect(|_| stage.next())
                }));
            }
            assert_eq!(here, [its(b"early", &other), its(b"late", &other)], "{local}");
        }
    }

    #[test]
    fn it_goes_from_peer_to_peer_and_to_nobody() {
        for local in LOCAL {
            let (shared, mut connected, mut stage) = bound(local);
            let ((one, there), (two, _)) = (somebody(&shared), somebody(&shared));
            for peer in [&one, &two, &one] {
                connected.connect(peer.local_addr().unwrap(), &shared).unwrap();
                send_it(&[&one, &two], there);
                assert_eq!(all(&connected, &mut stage), [(b"it".to_vec(), peer.local_addr().unwrap())], "{local}");
                peer.send_to(b"left", there).unwrap();
                connected.part();
                send_it(&[&one, &two], there);
                assert_eq!(all(&connected, &mut stage), [(b"left".to_vec(), peer.local_addr().unwrap())], "{local}");
            }
            let mut at_shared = 0;
            while at_shared < 9 {
                stage.look(&shared).unwrap();
                assert!(stage.peek().is_some(), "{local}: only {at_shared} are at the shared one");
                at_shared += std::iter::from_fn(|| stage.peek().is_some().then(|| stage.next())).count();
            }
        }
    }

    #[test]
    fn who_does_not_look_for_a_while_tells_them_apart_all_the_same() {
        let (shared, mut connected, mut stage) = bound("127.0.0.1:0");
        let ((peer, there), (other, _)) = (somebody(&shared), somebody(&shared));
        connected.bind(&shared).unwrap();
        send_it(&[&other, &other], there);
        let mut sockets = Sockets::new(shared, Some(connected));
        sockets.change(Change::Connect(peer.local_addr().unwrap()));
        thread::sleep(2 * SETTLES);
        for number in 0..2 {
            while stage.is_empty() {
                sockets.look(&mut stage).unwrap();
            }
            assert_eq!(stage.peek(), Some((&b"it"[..], other.local_addr().unwrap())), "{number}");
            stage.next();
        }
    }

    #[test]
    fn who_cannot_be_reached_leaves_it_nobodys() {
        let (shared, mut connected, mut stage) = bound("127.0.0.1:0");
        let (other, there) = somebody(&shared);
        // The system lets nobody connect to everybody.
        assert!(connected.connect(([255, 255, 255, 255], 9).into(), &shared).is_err());
        other.send_to(b"it", there).unwrap();
        assert_eq!((all(&connected, &mut stage), connected.peer()), (vec![], None));
    }

    #[test]
    fn it_sends_to_its_peer_only() {
        let (shared, mut connected, _) = bound("0.0.0.0:0");
        let ((peer, _), (other, _)) = (somebody(&shared), somebody(&shared));
        let [to_peer, to_other] = [&peer, &other].map(|one| one.local_addr().unwrap().as_any());
        assert!(!connected.send(&to_peer, b"it", SendFlags::empty()));
        connected.connect(peer.local_addr().unwrap(), &shared).unwrap();
        assert!(!connected.send(&to_other, b"it", SendFlags::empty()));
        assert!(connected.send(&to_peer, b"it", SendFlags::empty()));
        assert_eq!(peer.recv_from(&mut [0; 9]).unwrap().1.port(), shared.local_addr().unwrap().port());
    }
}
