//! A queue that another process has opened, bound and steered. This process has its descriptors and needs no rights: the
//! kernel asks for them when a socket is made, and not when its rings are mapped and used.
//!
//! What arrives is not judged: the caller steers, as with the kernel's own sockets.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_ring::own::{Own, high};
use am_transport::{Caps, Command, LentQueue, Notice, PeerAddressError, Transport};
use am_wire::Address;

use crate::frames::{FrameTable, Frames};
use crate::given_memory::{self, GivenQueueError};
use crate::ring::SocketRings;
use crate::rx::Rx;
use crate::tx::Tx;

/// How often a queue asks the kernel whether its interface is still there.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The rings of a queue that another process has opened.
///
/// Dropping it closes the socket; then the kernel frees the queue. Frames that the program still holds stay valid.
#[derive(Debug)]
pub struct GivenQueue {
    // Fields are dropped in this order: the rings and the socket, then the frames that the kernel held.
    rx: Rx,
    tx: Tx,
    socket: QueueSocket,
    frames: Frames,
    caps: Caps,
    next_check: Instant,
}

impl GivenQueue {
    /// Use a queue. `address` is the link address whose frames arrive on it, and `max_frame` the longest of them.
    ///
    /// # Errors
    /// See [`GivenQueueError`].
    ///
    /// # Safety
    /// The descriptors are an AF_XDP socket and the memory that is registered with it, from a process that is trusted as a NIC is: it
    /// writes to no frame that the program has. Nothing else in this process uses them or copies of them.
    pub unsafe fn new(lent: LentQueue, address: Address, max_frame: usize) -> Result<GivenQueue, GivenQueueError> {
        let LentQueue { socket, memory, shape } = lent;
        // SAFETY: the caller's promise.
        let mut frames = Frames::new(unsafe { given_memory::map(&memory, &shape, max_frame) }?);
        let socket = QueueSocket::new(socket).map_err(GivenQueueError::Map)?;
        // SAFETY: the caller's promise. The shape was checked. Fields drop the rings before the socket.
        let rings = unsafe { SocketRings::map(socket.0.as_fd(), shape.entries) }.map_err(GivenQueueError::Map)?;
        let caps = Caps {
            name: format!("queue {}", shape.queue),
            mode: format!("queue {}, {}", shape.queue, if shape.zero_copy { "zero-copy" } else { "copy" }),
            address,
            max_frame,
            reliable: false,
            ordered: true,
            hears_all: false,
            pool: frames.pool().clone(),
            wake: Some(vec![socket.0.clone()]),
            out_of_band: None,
        };
        let mut rx = Rx::new(rings.receiving, 1, shape.zero_copy, false);
        rx.refill(&mut frames);
        let tx = Tx::new(rings.sending, max_frame, usize::MAX);
        Ok(GivenQueue { rx, tx, socket, frames, caps, next_check: Instant::now() })
    }
}

/// The same as a transport, for `am_vnic::open_with_queue`.
///
/// # Errors
/// See [`GivenQueueError`].
///
/// # Safety
/// As for [`GivenQueue::new`].
pub unsafe fn open_given(
    lent: LentQueue,
    address: Address,
    max_frame: usize,
) -> Result<Box<dyn Transport>, Box<dyn Error + Send + Sync>> {
    // SAFETY: the caller's promise.
    Ok(Box::new(unsafe { GivenQueue::new(lent, address, max_frame) }?))
}

impl Transport for GivenQueue {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.rx.receive(&mut self.frames, budget, each)
    }

    #[inline]
    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        self.tx.send(&mut self.frames, frame)
    }

    #[inline]
    fn flush(&mut self) {
        self.tx.flush(&mut self.frames);
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        if let Command::RxCredit(frames) = command {
            self.rx.set_rx_credit(frames);
        }
        command.without_peers(&self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let now = Instant::now();
        // A program that only receives sends nothing that fails.
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            if !self.socket.0.is_lost() {
                self.tx.check_socket();
            }
        }
        if self.tx.is_unbound {
            each(Notice::LinkError("the interface of the queue is gone"));
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let (rx, tx) = (&self.rx.counters, &self.tx.counters);
        each("queue_sent", tx.frames);
        each("queue_received", rx.frames);
        each("queue_copied", tx.copied);
        each("queue_full", tx.full);
        each("queue_lost_too_long", tx.invalid);
        each("queue_invalid", rx.invalid + tx.invalid_completions);
        each("queue_kicks", tx.kicks);
        each("queue_link_errors", tx.link_errors);
    }
}

/// The socket, and `/dev/null`, opened early so that closing cannot fail.
///
/// Others hold the socket's descriptor, to wait on it ([`Caps::wake`]). But the frames that the kernel has return only when the socket is
/// closed. So the descriptor is redirected to `/dev/null` when this is dropped: the socket closes, and each holder keeps a valid descriptor.
#[derive(Debug)]
struct QueueSocket(Arc<Own>, Own<File>);

impl QueueSocket {
    fn new(socket: OwnedFd) -> io::Result<QueueSocket> {
        Ok(QueueSocket(Arc::new(Own::new(high(socket))), Own::new(high(File::open("/dev/null")?))))
    }
}

impl Drop for QueueSocket {
    fn drop(&mut self) {
        // The rings were dropped before this.
        _ = self.1.get().map(|nothing| self.0.replace(nothing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::net::UnixDatagram;

    #[test]
    fn the_socket_closes_though_others_wait_on_it() {
        let (socket, other) = UnixDatagram::pair().unwrap();
        let queue = QueueSocket::new(socket.into()).unwrap();
        let wake = queue.0.clone();
        assert!(other.send(b"open").is_ok());
        drop(queue);
        assert!(other.send(b"closed").is_err());
        assert!(nix::sys::stat::fstat(&wake).is_ok(), "what the others have is a descriptor");
    }
}
