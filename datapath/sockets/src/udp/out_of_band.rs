//! Heartbeats on the socket of a node whose thread does not poll.

use std::collections::HashSet;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use am_ring::Own;
use am_transport::OutOfBand;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};

/// The socket addresses of the peers, for another thread.
pub(crate) type SharedPeers = Arc<Mutex<HashSet<SocketAddr>>>;

#[derive(Debug)]
pub(super) struct UdpOutOfBand {
    /// `None` once the transport is closed: the socket's port is free then.
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
        let peers: Vec<SocketAddr> =
            self.peers.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        // It is none of ours if the program has closed it by its number.
        let Some(socket) = socket.as_ref().and_then(|socket| socket.get()) else { return false };
        let mut sent = false;
        for peer in peers {
            // The node's thread may have set a segment length on the socket. This frame is whole.
            let whole = [ControlMessage::UdpGsoSegments(&0)];
            let to = SockaddrStorage::from(peer);
            let frame = [IoSlice::new(frame)];
            sent |= sendmsg(socket.as_raw_fd(), &frame, &whole, MsgFlags::MSG_DONTWAIT, Some(&to)).is_ok();
        }
        sent
    }
}
