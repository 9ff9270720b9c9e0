//! The transmit queue of a port, for two threads: the node's, and that of the heartbeats while the node does not poll.
//! A driver's queue is for one thread at a time. The lock costs the node two operations on its own cache line in each
//! call of the driver.

use std::hint;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

use am_ring::Frame;
use am_transport::OutOfBand;
use am_wire::Buffer;

use super::Chunks;
use crate::abi;

/// What both threads see of a port.
#[derive(Debug)]
pub(crate) struct TxLock {
    is_taken: AtomicBool,
    is_closed: AtomicBool,
    /// 1 while the port moves frames; 0 while it is being restarted; negative if that failed.
    pub(super) state: AtomicI32,
}

impl TxLock {
    pub(super) fn new() -> TxLock {
        TxLock { is_taken: AtomicBool::new(false), is_closed: AtomicBool::new(false), state: AtomicI32::new(1) }
    }

    fn try_take(&self) -> bool {
        !self.is_taken.swap(true, Acquire)
    }

    fn release(&self) {
        self.is_taken.store(false, Release);
    }

    /// Use the queue. A heartbeat takes a few microseconds.
    #[inline]
    pub(super) fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        while !self.try_take() {
            hint::spin_loop();
        }
        let result = work();
        self.release();
        result
    }

    /// Send nothing any more: the port is about to be closed.
    pub(super) fn close(&self) {
        self.with(|| self.is_closed.store(true, Relaxed));
    }
}

/// Sends heartbeats by a port. It has a frame of the pool for itself.
#[derive(Debug)]
pub(crate) struct PortOutOfBand {
    lock: Arc<TxLock>,
    chunks: Arc<Chunks>,
    port: u16,
    /// Bytes that the frame has room for.
    room: usize,
    /// The frame; its length is 0 until it is announced.
    frame: Mutex<abi::Frame>,
}

impl PortOutOfBand {
    /// `own` stays in use, by nothing else, for as long as this exists.
    pub(super) fn new(lock: Arc<TxLock>, chunks: Arc<Chunks>, port: u16, own: &mut Frame) -> PortOutOfBand {
        let (index, stride) = (own.index(), chunks.memory.stride as usize);
        let start = own.offset() - index * stride;
        let room = own.space().map_or(0, |space| space.len());
        let frame = Mutex::new(abi::Frame { index: index as u32, start: start as u32, len: 0 });
        PortOutOfBand { lock, chunks, port, room, frame }
    }
}

impl OutOfBand for PortOutOfBand {
    fn announce(&self, frame: &[u8]) {
        let mut own = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        if frame.len() > self.room {
            return;
        }
        let at = own.index as usize * self.chunks.memory.stride as usize + own.start as usize;
        // SAFETY: the chunk has room for `room` bytes from there on. Nothing else uses it, as `new` says, and the mutex keeps
        // another call of this away.
        let place = unsafe { slice::from_raw_parts_mut(self.chunks.memory.base.add(at), frame.len()) };
        place.copy_from_slice(frame);
        own.len = frame.len() as u32;
    }

    fn broadcast(&self, _frame: &[u8]) -> bool {
        let own = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        // The node's thread may have been descheduled while it sends. The next heartbeat comes soon.
        if own.len == 0 || !self.lock.try_take() {
            return false;
        }
        let is_open = !self.lock.is_closed.load(Relaxed) && self.lock.state.load(Acquire) > 0;
        // SAFETY: the port is open and not being restarted, and neither begins before the lock is released. The frame is in the
        // pool, which lives as long as `chunks`. The driver gets a copy.
        let sent =
            is_open && unsafe { (self.chunks.table.send_copies)(self.port, self.chunks.memory.pool, &*own, 1) } == 1;
        self.lock.release();
        sent
    }
}
