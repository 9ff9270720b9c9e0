//! The program's heartbeat: the daemon has it, and sends it while the program reads no frames, even if the program is stopped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use am_ring::Own;
use am_transport::OutOfBand;

use crate::protocol::heartbeat_packet;
use crate::socket;

/// What the node's thread and that of the heartbeats share.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat(Mutex<Shared>);

#[derive(Debug, Default)]
struct Shared {
    packet: Option<Vec<u8>>,
    /// The attachment's socket.
    socket: Option<Arc<Own>>,
}

impl Heartbeat {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This program is attached, or no longer.
    pub(crate) fn set_socket(&self, socket: Option<Arc<Own>>) {
        self.lock().socket = socket;
        self.send();
    }

    fn send(&self) -> bool {
        let Shared { packet: Some(packet), socket: Some(socket) } = &*self.lock() else { return false };
        // It is none of ours if the program has closed it by its number.
        socket.get().is_some_and(|socket| socket::send_packet(socket, packet).is_ok())
    }
}

impl OutOfBand for Heartbeat {
    fn announce(&self, frame: &[u8]) {
        self.lock().packet = Some(heartbeat_packet(frame));
        self.send();
    }

    /// The daemon has the frame, and sends it when it gets it again.
    fn broadcast(&self, _frame: &[u8]) -> bool {
        self.send()
    }
}
