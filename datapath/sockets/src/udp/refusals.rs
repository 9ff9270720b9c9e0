//! Peers to which the kernel refuses to send: because of a route (`prohibit`, `blackhole`), a firewall, a filter of system
//! calls, or an interface that is down. The kernel refuses each datagram at once, so the transport knows without waiting for
//! an answer.
//!
//! While the kernel refuses the datagrams to every peer, the transport reports a link error. A node with several transports
//! may then send nothing through this one. So the transport itself tests the peers from time to time with empty datagrams.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Bound;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendFlags, SocketAddrAny, send, sendto};

use super::peer_table::{PeerKey, PeerTable};

/// The interval of these tests, and the most peers in one.
const ASK_INTERVAL: Duration = Duration::from_millis(250);
const MAX_ASKED: usize = 16;
const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// The peers, each with the kernel's error for the last datagram to it.
#[derive(Debug)]
pub(super) struct Refusals {
    by_peer: BTreeMap<PeerKey, Errno>,
    is_connected: bool,
    next_ask: Instant,
    /// The last peer that was tested. The next test begins behind it.
    asked: Option<PeerKey>,
    error: Option<String>,
}

impl Refusals {
    pub(super) fn new(is_connected: bool) -> Refusals {
        Refusals { by_peer: BTreeMap::new(), is_connected, next_ask: Instant::now(), asked: None, error: None }
    }

    /// A datagram to this peer was not sent. Errors about the datagram itself are ignored.
    #[cold]
    pub(super) fn insert(&mut self, peer: PeerKey, error: Errno) {
        if !is_about_the_datagram(error) {
            self.by_peer.insert(peer, error);
        }
    }

    /// A datagram to this peer was sent.
    pub(super) fn remove(&mut self, peer: PeerKey) {
        if !self.by_peer.is_empty() {
            self.by_peer.remove(&peer);
        }
    }

    /// The link error, if the kernel refuses the datagrams to every peer.
    pub(super) fn error(&mut self, socket: &UdpSocket, peers: &PeerTable) -> Option<&str> {
        if self.by_peer.is_empty() {
            return None;
        }
        let now = Instant::now();
        if now >= self.next_ask {
            self.next_ask = now + ASK_INTERVAL;
            self.ask_again(socket, peers);
            self.error = self.describe(peers);
        } else if self.error.is_none() {
            self.error = self.describe(peers);
        }
        self.error.as_deref().filter(|_| self.is_every_peer(peers))
    }

    fn is_every_peer(&self, peers: &PeerTable) -> bool {
        !self.by_peer.is_empty() && self.by_peer.len() == peers.len()
    }

    fn ask_again(&mut self, socket: &UdpSocket, peers: &PeerTable) {
        self.by_peer.retain(|peer, _| peers.get(*peer).is_some());
        let after = (self.asked.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let due: Vec<PeerKey> = self.by_peer.range(after).map(|(peer, _)| *peer).take(MAX_ASKED).collect();
        // After the last peer, the next test begins with the first one.
        self.asked = due.last().copied().filter(|_| due.len() == MAX_ASKED);
        for peer in due {
            match peers.get(peer).map(|to| self.send_nothing(socket, to)) {
                Some(Err(error)) if !is_about_the_datagram(error) => _ = self.by_peer.insert(peer, error),
                _ => self.remove(peer),
            }
        }
    }

    fn send_nothing(&self, socket: &UdpSocket, to: &SocketAddrAny) -> Result<usize, Errno> {
        if self.is_connected { send(socket, &[], FLAGS) } else { sendto(socket, &[], FLAGS, to) }
    }

    fn describe(&self, peers: &PeerTable) -> Option<String> {
        let (peer, error) = self.by_peer.first_key_value().filter(|_| self.is_every_peer(peers))?;
        let to = SocketAddr::try_from(peers.get(*peer)?.clone()).ok()?;
        let more = match self.by_peer.len() - 1 {
            0 => String::new(),
            more => format!(", and to {more} more"),
        };
        Some(format!(
            "the kernel refuses each datagram to {to}{more}: {error}; `ip route get {}` shows the route, and a firewall may refuse, too",
            to.ip()
        ))
    }
}

/// Whether an error is about the datagram and not about the route to the peer: the buffer is full, memory is short, the
/// datagram is too long, or no program had the peer's port when an earlier one arrived.
fn is_about_the_datagram(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM | Errno::MSGSIZE | Errno::CONNREFUSED)
}
