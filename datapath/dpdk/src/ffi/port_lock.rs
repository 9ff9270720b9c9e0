//! A port, for two threads: the node's, and that of the heartbeats while the node does not poll. A driver's queues, and the
//! lists of the pool, are for one thread at a time.
//!
//! ```text
//!   the node    is_busy = true │ compiler fence │ until no heartbeat visits   it has the port
//!   heartbeat   visits = true  │ membarrier     │ is the node busy?           no: it has the port; yes: it leaves
//! ```
//!
//! Each writes its own word before it reads the other's. `membarrier` makes each running thread of the process pass a full
//! barrier. So one of both sees what the other has written (Dekker's algorithm), and the node, which has the port in each of
//! its calls, needs no locked operation. Where the kernel has no `membarrier`, both have a fence.

use std::hint;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*, compiler_fence, fence};
use std::sync::{Arc, Mutex, PoisonError};

use am_ring::Frame;
use am_transport::OutOfBand;
use am_wire::Buffer;
use nix::libc::{SYS_membarrier, c_int, syscall};

use super::Chunks;
use crate::abi;

/// As in `linux/membarrier.h`.
const PRIVATE_EXPEDITED: c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

fn membarrier(command: c_int) -> bool {
    // SAFETY: these commands take neither flags nor memory.
    unsafe { syscall(SYS_membarrier, command, 0, 0) == 0 }
}

/// What both threads see of a port.
#[derive(Debug)]
pub(crate) struct PortLock {
    /// The node has the port.
    is_busy: AtomicBool,
    /// A heartbeat has the port, or is about to.
    is_visited: AtomicBool,
    /// Heartbeats spare the node the fence.
    has_membarrier: bool,
    is_closed: AtomicBool,
    /// 1 while the port moves frames; 0 while it is being restarted; negative if that failed.
    pub(super) state: AtomicI32,
}

impl PortLock {
    pub(super) fn new() -> PortLock {
        PortLock {
            is_busy: AtomicBool::new(false),
            is_visited: AtomicBool::new(false),
            has_membarrier: membarrier(REGISTER_PRIVATE_EXPEDITED),
            is_closed: AtomicBool::new(false),
            state: AtomicI32::new(1),
        }
    }

    /// Use the port. For the node: one thread at a time. A heartbeat takes a few microseconds.
    #[inline(always)]
    pub(super) fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        self.is_busy.store(true, Relaxed);
        if self.has_membarrier {
            compiler_fence(SeqCst);
        } else {
            fence(SeqCst);
        }
        while self.is_visited.load(Acquire) {
            hint::spin_loop();
        }
        let result = work();
        self.is_busy.store(false, Release);
        result
    }

    /// Use the port for a heartbeat, unless the node does: it may have been descheduled meanwhile. One thread at a time.
    fn visit<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        self.is_visited.store(true, Relaxed);
        let has_passed = if self.has_membarrier {
            membarrier(PRIVATE_EXPEDITED)
        } else {
            fence(SeqCst);
            true
        };
        let result = (has_passed && !self.is_busy.load(Acquire)).then(work);
        self.is_visited.store(false, Release);
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
    lock: Arc<PortLock>,
    chunks: Arc<Chunks>,
    port: u16,
    /// Bytes that the frame has room for.
    room: usize,
    /// The frame; its length is 0 until it is announced.
    frame: Mutex<abi::Frame>,
}

impl PortOutOfBand {
    /// `own` stays in use, by nothing else, for as long as this exists.
    pub(super) fn new(lock: Arc<PortLock>, chunks: Arc<Chunks>, port: u16, own: &mut Frame) -> PortOutOfBand {
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
        if own.len == 0 {
            return false;
        }
        let send = || {
            let is_open = !self.lock.is_closed.load(Relaxed) && self.lock.state.load(Acquire) > 0;
            // SAFETY: the port is open and not being restarted, and neither begins before the visit ends. The frame is in the
            // pool, which lives as long as `chunks`. The driver gets a copy.
            is_open && unsafe { (self.chunks.table.send_copies)(self.port, self.chunks.memory.pool, &*own, 1) } == 1
        };
        // If the node has the port, it polls again soon, or the next heartbeat comes.
        self.lock.visit(send) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Rounds in which both threads run at once. The processors may be others' meanwhile, or there may be one.
    const ROUNDS: u64 = 5000;
    const AT_MOST: Duration = Duration::from_secs(5);

    /// Wait until the other thread is in this round. False if it was not running.
    fn meet(other: &AtomicU64, round: u64) -> bool {
        let is_there = || other.load(Acquire) >= round;
        let is_running = (0..1000).any(|_| {
            hint::spin_loop();
            is_there()
        });
        while !is_there() {
            thread::yield_now();
        }
        is_running
    }

    fn spin(times: u64) {
        (0..times).for_each(|_| hint::spin_loop());
    }

    /// Both threads come at the same moment, again and again, or one of them a little later: each has to write before the
    /// other reads, in every order.
    fn assert_excludes(lock: &PortLock) {
        let (count, node, heartbeat) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        // Two threads that do this at once lose a count.
        let add = || {
            let before = count.load(Relaxed);
            spin(20);
            count.store(before + 1, Relaxed);
        };
        let (since, mut calls, mut together) = (Instant::now(), 0, 0);
        let visits = thread::scope(|scope| {
            let heartbeats = scope.spawn(|| {
                let mut visits = 0;
                for round in 1.. {
                    meet(&node, round);
                    if node.load(Relaxed) == u64::MAX {
                        break;
                    }
                    heartbeat.store(round, Release);
                    spin(round / 8 % 8);
                    visits += u64::from(lock.visit(add).is_some());
                }
                visits
            });
            while together < ROUNDS && since.elapsed() < AT_MOST {
                calls += 1;
                node.store(calls, Release);
                together += u64::from(meet(&heartbeat, calls));
                spin(calls % 8);
                lock.with(add);
            }
            node.store(u64::MAX, Release);
            heartbeats.join().unwrap()
        });
        assert_eq!(
            count.into_inner(),
            calls + visits,
            "{calls} calls, {together} with both running, and {visits} visits"
        );
        assert!(!lock.is_busy.load(Relaxed) && !lock.is_visited.load(Relaxed));
    }

    #[test]
    fn the_node_and_a_heartbeat_are_never_inside_at_once() {
        assert_excludes(&PortLock::new());
        assert_excludes(&PortLock { has_membarrier: false, ..PortLock::new() });
    }

    #[test]
    fn a_heartbeat_does_not_wait_for_the_node() {
        let lock = PortLock::new();
        assert_eq!(lock.with(|| lock.visit(|| ())), None);
        assert_eq!(lock.visit(|| 7), Some(7));
    }
}
