//! A transport on which things go wrong, by seed.
//!
//! ```text
//!   send ──▶ drop? ──▶ corrupt? ──▶ reorder? delay? ──▶ duplicate? ──▶ the transport
//!                                      │                                 ▲
//!                                      ▼                                 │
//!                                   waiting ─── overtaken, or turns over ┘
//! ```
//!
//! Faults strike frames that are sent; for both directions, wrap both ends. What
//! comes in passes as it is. The fate of the nth frame depends on seed and n
//! only, so a failure is found again by its seed. A frame that the transport
//! gives back has not met its fate yet: it, or the frame sent in its place,
//! meets the same one.
//!
//! Copies and damaged frames are fresh frames of the transport's pool, because
//! the sender may keep what it sends. If the pool has none, there is no copy,
//! and the frame to be damaged is lost; both are counted.
//!
//! ```
//! use am_transport::{Transport, faulty::{Faults, Faulty}, loopback};
//!
//! let mut ends = loopback::wire(2).into_iter().map(|plug| plug.open().unwrap());
//! let faults = Faults { seed: 7, drop: 0.05, ..Faults::NONE };
//! let left = Faulty::new(ends.next().unwrap(), faults);
//! assert!(!left.caps().reliable && left.caps().ordered);
//! ```

mod fate;
mod faults;
mod waiting;

use am_ring::Frame;
use am_wire::bounce::Back;
use am_wire::{Address, Buffer, Flow};
use fate::{Fate, Wait};
pub use faults::Faults;
use waiting::Waiting;

use crate::{Caps, IntroduceError, Transport};

/// A transport, and what goes wrong on it.
#[derive(Debug)]
pub struct Faulty<T> {
    inner: T,
    caps: Caps,
    faults: Faults,
    /// Of the next frame.
    fate: Fate,
    /// Frames that have met their fate.
    number: u64,
    waiting: Waiting,
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
    /// Let these things go wrong on a transport.
    pub fn new(inner: T, faults: Faults) -> Faulty<T> {
        let caps = inner.caps().clone();
        let caps = Caps {
            mode: format!("{}, faulty", caps.mode),
            reliable: caps.reliable && faults.are_reliable(),
            ordered: caps.ordered && faults.are_ordered(),
            ..caps
        };
        let waiting = Waiting::new(faults.waiting, faults.delay_by);
        Faulty { inner, caps, faults, fate: Fate::draw(&faults, 0), number: 0, waiting, count: Count::default() }
    }

    /// The transport itself.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Change what goes wrong from the next frame on, as when a cable is pulled
    /// and put back. How many frames wait and how long stays as it was, and so
    /// do the [`Caps`].
    pub fn set(&mut self, faults: Faults) {
        self.faults = faults;
        self.fate = Fate::draw(&faults, self.number);
    }

    /// The frame goes, or is to wait.
    fn pass(&mut self, to: Address, frame: Frame) -> Result<(), Frame> {
        match self.fate.wait {
            Wait::No => self.inner.send(to, frame),
            _ if self.waiting.is_full() => {
                self.inner.send(to, frame)?;
                self.count.spared += 1;
                Ok(())
            }
            wait => {
                let count =
                    if matches!(wait, Wait::Frames(_)) { &mut self.count.reordered } else { &mut self.count.delayed };
                *count += 1;
                self.waiting.hold(to, frame, wait);
                Ok(())
            }
        }
    }

    /// The frame goes and a copy of it behind.
    fn pass_twice(&mut self, to: Address, frame: Frame) -> Result<(), Frame> {
        let copy = self.caps.pool.copy(frame.bytes());
        self.pass(to, frame)?;
        let count = match copy.map(|copy| self.inner.send(to, copy)) {
            None => &mut self.count.no_memory,
            Some(Ok(())) => &mut self.count.duplicated,
            Some(Err(_)) => &mut self.count.spared,
        };
        *count += 1;
        Ok(())
    }

    /// The frame goes damaged, or not at all.
    fn corrupt(&mut self, to: Address, frame: Frame) -> Result<(), Frame> {
        if !self.faults.check {
            match self.caps.pool.copy(frame.bytes()) {
                None => self.count.no_memory += 1,
                Some(mut damaged) => {
                    damaged.space().into_iter().for_each(|bytes| self.fate.damage(&mut bytes[..frame.bytes().len()]));
                    self.pass(to, damaged).map_err(|_| frame)?;
                }
            }
        }
        self.count.corrupted += 1;
        Ok(())
    }

    fn meet_fate(&mut self, to: Address, frame: Frame) -> Result<(), Frame> {
        if self.fate.drop {
            self.count.dropped += 1;
            Ok(())
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

    fn send(&mut self, to: Address, frame: Frame) -> Result<(), Frame> {
        let before = self.waiting.len();
        self.meet_fate(to, frame)?;
        self.number += 1;
        self.fate = Fate::draw(&self.faults, self.number);
        if self.waiting.len() == before {
            self.waiting.overtaken();
            self.waiting.send_due(|to, frame| self.inner.send(to, frame));
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.waiting.turn();
        self.waiting.send_due(|to, frame| self.inner.send(to, frame));
        self.inner.flush();
    }

    fn steer(&mut self, flow: Flow, open: bool) {
        self.inner.steer(flow, open);
    }

    fn way_back(&mut self, flow: Flow, back: &Back) {
        self.inner.way_back(flow, back);
    }

    fn full(&mut self, is_full: bool) {
        self.inner.full(is_full);
    }

    fn stray(&mut self) -> Option<Flow> {
        self.inner.stray()
    }

    fn gone(&mut self) -> Option<Address> {
        self.inner.gone()
    }

    fn promise(&mut self, frames: usize) {
        self.inner.promise(frames);
    }

    fn introduce(&mut self, place: &str) -> Result<(), IntroduceError> {
        self.inner.introduce(place)
    }

    fn forget(&mut self, place: &str) -> Result<(), IntroduceError> {
        self.inner.forget(place)
    }

    fn broken(&mut self) -> Option<&str> {
        self.inner.broken()
    }

    fn suspect(&mut self, to: Address) {
        self.inner.suspect(to);
    }

    fn way_to(&self, to: Address) -> Option<String> {
        self.inner.way_to(to)
    }

    fn place_of(&self, to: Address) -> Option<String> {
        self.inner.place_of(to)
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
