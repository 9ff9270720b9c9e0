//! Heartbeats on the socket of a node whose thread does not poll.
#![allow(unsafe_code, reason = "one socket option that no library wraps")]

use std::collections::HashSet;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use am_ring::Own;
use am_transport::OutOfBand;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, recvmsg, sendmsg};

use crate::setup::socket_address;

/// The most waiting datagrams whose senders get a heartbeat.
const MAX_WAITING: usize = 256;

/// The socket addresses of the peers, for another thread.
pub(crate) type SharedPeers = Arc<Mutex<HashSet<SocketAddr>>>;

#[derive(Debug)]
pub(super) struct UdpOutOfBand {
    /// `None` once the transport is closed, so that the port is free.
    socket: Mutex<Option<Arc<Own<UdpSocket>>>>,
    peers: SharedPeers,
}

impl UdpOutOfBand {
    pub(super) fn new(socket: Arc<Own<UdpSocket>>, peers: SharedPeers) -> UdpOutOfBand {
        UdpOutOfBand { socket: Mutex::new(Some(socket)), peers }
    }

    pub(super) fn close(&self) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl OutOfBand for UdpOutOfBand {
    fn broadcast(&self, frame: &[u8]) -> bool {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        // `get` fails if the program has closed the descriptor, because its number may be another file's by now.
        let Some(socket) = socket.as_ref().and_then(|socket| socket.get()) else { return false };
        // Nodes that this one does not know yet may search for it. Their datagrams wait in the socket.
        peers.extend(senders_of_waiting(socket));
        let mut sent = false;
        for peer in peers {
            // The node's thread may have set a segment length on the socket, by which this frame must not be split.
            let whole = [ControlMessage::UdpGsoSegments(&0)];
            let to = SockaddrStorage::from(peer);
            let frame = [IoSlice::new(frame)];
            sent |= sendmsg(socket.as_raw_fd(), &frame, &whole, MsgFlags::MSG_DONTWAIT, Some(&to)).is_ok();
        }
        sent
    }
}

/// The senders of the datagrams in the socket's queue. The datagrams stay in the queue.
fn senders_of_waiting(socket: &UdpSocket) -> HashSet<SocketAddr> {
    let mut senders = HashSet::new();
    if !set_peek_offset(socket, 0) {
        return senders;
    }
    for _ in 0..MAX_WAITING {
        // With `MSG_TRUNC` the next peek begins behind the whole datagram, although no byte of it is copied.
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
        let Ok(looked) = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut [], None, flags) else {
            break;
        };
        senders.extend(looked.address.as_ref().and_then(socket_address));
    }
    _ = set_peek_offset(socket, -1);
    senders
}

/// Set the offset at which the next peek at waiting datagrams begins. With -1 each peek begins at the first one. Returns whether
/// the kernel supports it.
fn set_peek_offset(socket: &UdpSocket, offset: libc::c_int) -> bool {
    let length = size_of_val(&offset) as libc::socklen_t;
    // SAFETY: the descriptor is open while `socket` is borrowed, and the kernel reads `length` bytes of `offset`.
    let failed = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEEK_OFF, (&raw const offset).cast(), length)
    };
    failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_senders_are_seen_and_nothing_is_read() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let senders: Vec<UdpSocket> = (0..5).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for length in [1400, 0, 70] {
            senders.iter().for_each(|sender| _ = sender.send_to(&vec![7; length], to).unwrap());
        }
        let expected: HashSet<SocketAddr> = senders.iter().map(|sender| sender.local_addr().unwrap()).collect();
        for _ in 0..2 {
            assert_eq!(senders_of_waiting(&socket), expected);
        }
        let lengths: Vec<usize> = (0..15).map(|_| socket.recv(&mut [0; 2000]).unwrap()).collect();
        assert_eq!(lengths, [[1400; 5], [0; 5], [70; 5]].concat());
        assert_eq!(senders_of_waiting(&socket), HashSet::new());
    }
}
