//! A program with a queue of the NIC for itself. Frames to and from other hosts pass through the queue and not through the daemon.
//!
//! ```text
//!   to a program of this host, to a group ──▶ the port's lanes ──▶ daemon
//!   to all others                         ──▶ the queue ──▶ NIC
//! ```
//!
//! Broadcasts pass through the daemon, because programs of this host need them too, and because the daemon checks the names in beacons.
//! A NIC sends no frame back to its own host, so frames to other programs of this host pass through the daemon as well.
//!
//! When the daemon ends, no XDP program steers frames to the queue any more. The transport closes the queue. When it has attached again,
//! it gets another queue, or continues with the port alone.

use std::error::Error;

use am_ring::Frame;
use am_transport::{Caps, Command, LentQueue, Notice, PeerAddressError, Transport};
use am_wire::{Address, Buffer};

use crate::program::{self, State, Vnic};
use crate::{VnicOpenError, VnicOptions};

/// Opens a transport on a queue, for frames to this link address with at most this length. The call is unsafe, because the queue's memory is
/// shared with the process that made it. [`open_with_queue`] passes only queues of the daemon.
pub type OpenQueue = unsafe fn(LentQueue, Address, usize) -> Result<Box<dyn Transport>, Box<dyn Error + Send + Sync>>;

/// A virtual NIC with a queue. See [`open_with_queue`].
pub struct QueueVnic {
    port: Vnic,
    /// `None` while there is no daemon, or if the restarted daemon had no queue for this program.
    queue: Option<Box<dyn Transport>>,
    open: OpenQueue,
    /// The port's, with the queue's pool.
    caps: Caps,
    /// The queue's largest credit so far.
    credit: usize,
    /// Why the queue could not be used.
    trouble: String,
}

/// Attach to a daemon, and use a queue of its NIC if it gives one.
///
/// # Errors
/// See [`VnicOpenError`].
pub fn open_with_queue(options: &VnicOptions, open: OpenQueue) -> Result<Box<dyn Transport>, VnicOpenError> {
    let mut port = program::open(&VnicOptions { can_use_queue: true, ..options.clone() })?;
    let Some(lent) = take_queue(&mut port) else {
        port.options.can_use_queue = false;
        return Ok(Box::new(port));
    };
    let caps = port.caps.clone();
    let mut vnic = QueueVnic { port, queue: None, open, caps, credit: 0, trouble: String::new() };
    vnic.start(lent);
    if vnic.queue.is_none() {
        return Err(VnicOpenError::Queue { path: options.path.clone(), why: vnic.trouble });
    }
    Ok(Box::new(vnic))
}

/// The queue that came with the attachment, once.
fn take_queue(port: &mut Vnic) -> Option<LentQueue> {
    match &mut port.state {
        State::Attached(attachment) => attachment.queue.take().map(|queue| *queue),
        _ => None,
    }
}

/// Whether these are addresses of two ports of one daemon. They differ only in the bits of the port's number.
pub fn is_same_host(one: Address, other: Address) -> bool {
    let is_port = |address: Address| address.0[0] & 0b1100_0011 == 0b1000_0010;
    is_port(one) && is_port(other) && one.0[2..] == other.0[2..] && (one.0[1] ^ other.0[1]) < 8
}

impl QueueVnic {
    fn start(&mut self, lent: LentQueue) {
        // SAFETY: the descriptors came from the daemon, whose socket only those can make that the machine's owner trusts with its NIC.
        // The kernel has made them for this process alone, and this call gets them.
        let opened = unsafe { (self.open)(lent, self.caps.address, self.caps.max_frame) };
        match opened {
            Ok(mut queue) => {
                let its = queue.caps();
                self.caps.pool = its.pool.clone();
                self.caps.mode = format!("{}, {}", self.port.caps.mode, its.mode);
                // If the socket cannot be watched, the node's own timers make it poll.
                its.wake.iter().flatten().for_each(|socket| _ = self.port.readiness.add_queue(socket));
                // The queue needs no other command.
                _ = queue.control(Command::RxCredit(self.credit));
                self.trouble.clear();
                self.queue = Some(queue);
            }
            Err(why) => self.trouble = why.to_string(),
        }
    }

    /// The queue ends with the attachment that it came with. The next one may bring another.
    fn follow_port(&mut self) {
        if !matches!(self.port.state, State::Attached(_)) {
            self.close();
        } else if let Some(lent) = take_queue(&mut self.port) {
            self.close();
            self.start(lent);
        }
    }

    fn close(&mut self) {
        if self.queue.take().is_some() {
            (self.caps.pool, self.caps.mode) = (self.port.caps.pool.clone(), self.port.caps.mode.clone());
        }
    }
}

impl Transport for QueueVnic {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        // Read the lanes first, so that a flood on the queue does not delay their frames.
        let from_lanes = self.port.receive((budget / 4).max(1), each);
        let Some(queue) = &mut self.queue else { return from_lanes };
        let (steering, mut taken) = (&mut self.port.steering, from_lanes);
        queue.receive(budget - from_lanes, &mut |frame| {
            if steering.admits(frame.bytes()) {
                taken += 1;
                each(frame);
            }
        });
        taken
    }

    #[inline]
    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        match &mut self.queue {
            Some(queue) if !to.is_group() && !is_same_host(self.caps.address, to) => queue.send(to, frame),
            _ => self.port.send(to, frame),
        }
    }

    fn flush(&mut self) {
        self.port.flush();
        self.queue.iter_mut().for_each(|queue| queue.flush());
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        let result = self.port.control(command);
        match command {
            Command::BeforeSleep => {
                self.follow_port();
                let wakes = self.queue.iter().filter_map(|queue| queue.caps().wake.as_ref());
                wakes.flatten().for_each(|socket| self.port.readiness.arm(socket));
            }
            Command::RxCredit(frames) => {
                self.credit = self.credit.max(frames);
                self.queue.iter_mut().for_each(|queue| _ = queue.control(command));
            }
            _ => (),
        }
        result
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.port.poll_notices(each);
        self.follow_port();
        let mut is_dead = false;
        self.queue.iter_mut().for_each(|queue| queue.poll_notices(&mut |_| is_dead = true));
        if is_dead {
            self.close();
        }
        if !self.trouble.is_empty() {
            each(Notice::LinkError(&self.trouble));
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.port.counters(each);
        self.queue.iter().for_each(|queue| queue.counters(each));
    }
}
