//! The program's heartbeat. The daemon has a copy of the frame, and sends it while the program reads no frames, even if the program is
//! stopped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use am_ring::Own;
use am_transport::OutOfBand;

use crate::protocol::heartbeat_packet;
use crate::socket;

/// What the node's thread and the heartbeat thread share.
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

    /// This program was attached, or the attachment ended.
    pub(crate) fn set_socket(&self, socket: Option<Arc<Own>>) {
        self.lock().socket = socket;
        self.send();
    }

    fn send(&self) -> bool {
        let Shared { packet: Some(packet), socket: Some(socket) } = &*self.lock() else { return false };
        // `get` fails if the program has closed the descriptor, because its number may be another file's by now.
        socket.get().is_some_and(|socket| socket::send_packet(socket, packet).is_ok())
    }
}

impl OutOfBand for Heartbeat {
    fn announce(&self, frame: &[u8]) {
        self.lock().packet = Some(heartbeat_packet(frame));
        self.send();
    }

    /// The daemon sends the frame at once when the same heartbeat arrives again.
    fn broadcast(&self, _frame: &[u8]) -> bool {
        self.send()
    }
}
