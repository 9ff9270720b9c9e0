//! A transport with faults, drawn from a seed.
//!
//! ```text
//!   send ──▶ drop? ──▶ corrupt? ──▶ reorder? delay? ──▶ duplicate? ──▶ the transport
//!                                      │                                 ▲
//!                                      ▼                                 │
//!                                   waiting ─── overtaken, or turns over ┘
//! ```
//!
//! Faults strike only sent frames; for both directions, wrap both ends. The faults of the nth frame depend only on the seed
//! and on n, so a seed repeats a failure. A frame for which the transport has no room is not counted as sent: the next
//! attempt, with this frame or another, has the same faults.
//!
//! Copies and damaged frames are fresh frames of the transport's pool, because the sender may keep the frame that it sends.
//! If the pool is empty, there is no copy, and a frame to be damaged is lost. Both are counted.
//!
//! ```
//! use am_transport::{Transport, faulty::{Faults, Faulty}, loopback};
//!
//! let mut ends = loopback::wire(2).into_iter().map(|plug| plug.open().unwrap());
//! let faults = Faults { seed: 7, drop: 0.05, ..Faults::NONE };
//! let left = Faulty::new(ends.next().unwrap(), faults);
//! assert!(!left.caps().reliable && left.caps().ordered);
//! ```

mod faults;
mod frame_faults;
mod waiting;

use am_ring::Frame;
use am_wire::{Address, Buffer};
pub use faults::Faults;
use frame_faults::{FrameFaults, SendDelay};
use waiting::WaitingFrames;

use crate::{Caps, Command, Notice, PeerAddressError, PeerInfo, Transport};

/// A transport with faults.
#[derive(Debug)]
pub struct Faulty<T> {
    inner: T,
    caps: Caps,
    faults: Faults,
    /// The faults of the next frame.
    fate: FrameFaults,
    /// How many frames were sent.
    number: u64,
    waiting: WaitingFrames,
    count: Count,
}

#[derive(Debug, Default)]
struct Count {
    dropped: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
    delayed: u64,
    spared: u64,
    no_memory: u64,
}

impl<T: Transport> Faulty<T> {
    /// Add faults to a transport.
    pub fn new(inner: T, faults: Faults) -> Faulty<T> {
        let caps = inner.caps().clone();
        let caps = Caps {
            mode: format!("{}, faulty", caps.mode),
            reliable: caps.reliable && faults.are_reliable(),
            ordered: caps.ordered && faults.are_ordered(),
            ..caps
        };
        let waiting = WaitingFrames::new(faults.waiting, faults.delay_by);
        Faulty { inner, caps, faults, fate: FrameFaults::draw(&faults, 0), number: 0, waiting, count: Count::default() }
    }

    /// The transport inside.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Change the faults from the next frame on, for instance to pull a cable and plug it in again. The bounds of waiting
    /// frames and the [`Caps`] stay as they were.
    pub fn set(&mut self, faults: Faults) {
        self.faults = faults;
        self.fate = FrameFaults::draw(&faults, self.number);
    }

    /// Send the frame, or let it wait.
    fn pass(&mut self, to: Address, frame: &Frame) -> bool {
        match self.fate.wait {
            SendDelay::No => self.inner.send(to, frame),
            _ if self.waiting.is_full() => {
                let sent = self.inner.send(to, frame);
                self.count.spared += sent as u64;
                sent
            }
            wait => {
                let count = if matches!(wait, SendDelay::Frames(_)) {
                    &mut self.count.reordered
                } else {
                    &mut self.count.delayed
                };
                *count += 1;
                self.waiting.hold(to, frame.share(), wait);
                true
            }
        }
    }

    /// Send the frame, and a copy behind it.
    fn pass_twice(&mut self, to: Address, frame: &Frame) -> bool {
        let copy = self.caps.pool.copy(frame.bytes());
        if !self.pass(to, frame) {
            return false;
        }
        let count = match copy.map(|copy| self.inner.send(to, &copy)) {
            None => &mut self.count.no_memory,
            Some(true) => &mut self.count.duplicated,
            Some(false) => &mut self.count.spared,
        };
        *count += 1;
        true
    }

    /// Send the frame damaged, or drop it if the link has a check sequence.
    fn corrupt(&mut self, to: Address, frame: &Frame) -> bool {
        if !self.faults.check {
            match self.caps.pool.copy(frame.bytes()) {
                None => self.count.no_memory += 1,
                Some(mut damaged) => {
                    damaged.space().into_iter().for_each(|bytes| self.fate.damage(&mut bytes[..frame.bytes().len()]));
                    if !self.pass(to, &damaged) {
                        return false;
                    }
                }
            }
        }
        self.count.corrupted += 1;
        true
    }

    fn apply_faults(&mut self, to: Address, frame: &Frame) -> bool {
        if self.fate.drop {
            self.count.dropped += 1;
            true
        } else if self.fate.corrupt {
            self.corrupt(to, frame)
        } else if self.fate.duplicate {
            self.pass_twice(to, frame)
        } else {
            self.pass(to, frame)
        }
    }
}

impl<T: Transport> Transport for Faulty<T> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.inner.receive(budget, each)
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        let before = self.waiting.len();
        if !self.apply_faults(to, frame) {
            return false;
        }
        self.number += 1;
        self.fate = FrameFaults::draw(&self.faults, self.number);
        if self.waiting.len() == before {
            self.waiting.count_overtaking();
            self.waiting.send_due(|to, frame| self.inner.send(to, frame));
        }
        true
    }

    fn flush(&mut self) {
        self.waiting.count_turn();
        self.waiting.send_due(|to, frame| self.inner.send(to, frame));
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.inner.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.inner.poll_notices(each);
    }

    fn peer(&self, at: Address) -> PeerInfo {
        self.inner.peer(at)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
        each("faulty_dropped", self.count.dropped);
        each("faulty_duplicated", self.count.duplicated);
        each("faulty_reordered", self.count.reordered);
        each("faulty_corrupted", self.count.corrupted);
        each("faulty_delayed", self.count.delayed);
        each("faulty_spared", self.count.spared);
        each("faulty_no_memory", self.count.no_memory);
    }
}
