//! A queue that another process has opened, bound and steered. This process has its descriptors and needs no rights: the
//! kernel asks for them when a socket is made, and not when its rings are mapped and used.
//!
//! What arrives is not judged: the caller steers, as with the kernel's own sockets.

use std::error::Error;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_ring::own::Own;
use am_transport::{Caps, Command, LentQueue, Notice, PeerAddressError, Transport};
use am_wire::Address;

use crate::close::CloseOnDrop;
use crate::frames::Frames;
use crate::given_memory::{self, GivenQueueError};
use crate::path::Queue;
use crate::ring::SocketRings;
use crate::rx::Rx;
use crate::tx::Tx;

/// How often the kernel is asked whether the interface is still there.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Dropping it closes the socket; then the kernel frees the queue. Frames that the program still holds stay valid.
struct GivenQueue {
    queue: Queue<Frames>,
    caps: Caps,
    wake: Arc<Own>,
    next_check: Instant,
}

/// Use a queue, for `am_vnic::open_with_queue`. `address` is the link address whose frames arrive on it, and `max_frame`
/// the longest of them.
///
/// # Errors
/// The queue has another shape than a daemon of this version gives, or the kernel does not map it.
///
/// # Safety
/// The descriptors are an AF_XDP socket and the memory that is registered with it, from a process that is trusted as a NIC is: it
/// writes to no frame that the program has. Nothing else in this process uses them or copies of them.
pub unsafe fn open_given(
    lent: LentQueue,
    address: Address,
    max_frame: usize,
) -> Result<Box<dyn Transport>, Box<dyn Error + Send + Sync>> {
    let LentQueue { socket, memory, shape } = lent;
    // SAFETY: the caller's promise.
    let pool = unsafe { given_memory::map(&memory, &shape, max_frame) }?;
    let socket = CloseOnDrop::given(socket).map_err(GivenQueueError::Map)?;
    let wake = socket.wake();
    // SAFETY: the caller's promise. The shape was checked. The queue drops the rings before the socket.
    let rings = unsafe { SocketRings::map(wake.as_fd(), shape.entries) }.map_err(GivenQueueError::Map)?;
    let caps = Caps {
        name: format!("queue {}", shape.queue),
        mode: format!("queue {}, {}", shape.queue, if shape.zero_copy { "zero-copy" } else { "copy" }),
        address,
        max_frame,
        reliable: false,
        ordered: true,
        hears_all: false,
        pool: pool.clone(),
        wake: Some(vec![wake.clone()]),
        wakes_by_level: false,
        out_of_band: None,
    };
    let rx = Rx::new(rings.receiving, 1, shape.zero_copy, false);
    let tx = Tx::new(rings.sending, max_frame, usize::MAX);
    let queue = Queue::new(rx, tx, socket, Frames::new(pool));
    Ok(Box::new(GivenQueue { queue, caps, wake, next_check: Instant::now() }))
}

impl Transport for GivenQueue {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.queue.receive(budget, each)
    }

    #[inline]
    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        self.queue.send(frame)
    }

    #[inline]
    fn flush(&mut self) {
        self.queue.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        if let Command::RxCredit(frames) = command {
            self.queue.rx.set_rx_credit(frames);
        }
        command.without_peers(&self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let now = Instant::now();
        // A program that only receives sends nothing that fails.
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            if !self.wake.is_lost() {
                self.queue.tx.check_socket();
            }
        }
        if self.queue.tx.is_unbound {
            each(Notice::LinkError("the interface of the queue is gone"));
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let (rx, tx) = (&self.queue.rx.counters, &self.queue.tx.counters);
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
