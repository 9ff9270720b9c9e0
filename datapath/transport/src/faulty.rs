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
//! and on n, so a seed repeats a failure. A frame for which the transport has no room does not count as sent: its faults
//! strike the next attempt, with this frame or another.
//!
//! Duplicates and damaged frames are fresh frames of the transport's pool, because the sender may keep the frame that it
//! sends. If the pool is empty, there is no duplicate, and a frame to be damaged is lost. Both are counted.
//!
//! ```
//! use am_transport::{Transport, faulty::{Faults, Faulty}, loopback};
//!
//! let mut ends = loopback::wire(2).into_iter().map(|plug| plug.open().unwrap());
//! let faults = Faults { seed: 7, drop: 0.05, ..Faults::NONE };
//! let left = Faulty::new(ends.next().unwrap(), faults);
//! assert!(!left.caps().reliable && left.caps().ordered);
//! ```

use std::time::Duration;

use am_ring::Frame;
use am_wire::{Address, Buffer};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::{Caps, Command, Notice, PeerAddressError, PeerInfo, Transport};

/// The probability of each fault, for each frame that is sent. 0 or less means never, 1 or more means always.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The faults of the nth frame depend only on the seed, on n and on the other fields here.
    pub seed: u64,
    /// The frame is lost.
    pub drop: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// Up to [`reorder_by`](Self::reorder_by) later frames overtake the frame.
    pub reorder: f64,
    /// One to three bits of the frame flip. See [`check`](Self::check).
    pub corrupt: f64,
    /// The frame waits for up to [`delay_by`](Self::delay_by) turns.
    pub delay: f64,
    /// The most frames that overtake a reordered one. It waits at most `delay_by` turns, even if fewer frames are sent.
    pub reorder_by: u32,
    /// The most turns (calls of `flush`) that a frame waits. Turns, and not time, so that a test sees the same on every
    /// machine.
    pub delay_by: u32,
    /// Whether the link has a check sequence, as Ethernet has. With it a damaged frame is dropped and counted; without it
    /// the frame arrives damaged.
    pub check: bool,
    /// The most frames that wait at the same time. While that many wait, no further frame is delayed.
    pub waiting: usize,
}

impl Faults {
    /// No faults.
    pub const NONE: Faults = Faults {
        seed: 0,
        drop: 0.0,
        duplicate: 0.0,
        reorder: 0.0,
        corrupt: 0.0,
        delay: 0.0,
        reorder_by: 8,
        delay_by: 4,
        check: true,
        waiting: 64,
    };

    /// Loss, duplication and reordering, each with this probability.
    pub const fn lossy(seed: u64, probability: f64) -> Faults {
        Faults { seed, drop: probability, duplicate: probability, reorder: probability, ..Faults::NONE }
    }
}

/// All faults of one frame, drawn from the seed.
#[derive(Debug)]
struct FrameFaults {
    drop: bool,
    corrupt: bool,
    duplicate: bool,
    /// This many later frames overtake the frame.
    reorder: Option<u32>,
    /// The frame waits for this many turns, unless later frames overtake it.
    delay: Option<u32>,
    /// The source of the bits that flip. It continues after the draws above.
    rng: SmallRng,
}

impl FrameFaults {
    /// The faults of frame `number`.
    fn draw(faults: &Faults, number: u64) -> FrameFaults {
        // Multiplying by the golden ratio in 64 bits gives neighbouring seeds different streams.
        let mut rng = SmallRng::seed_from_u64(faults.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Every fault is drawn, whatever its probability, so that one fault's probability does not change where others strike.
        let mut strikes = |probability: f64| rng.random::<f64>() < probability;
        let (drop, corrupt, duplicate) = (strikes(faults.drop), strikes(faults.corrupt), strikes(faults.duplicate));
        let (reorder, delay) = (strikes(faults.reorder), strikes(faults.delay));
        let frames = rng.random_range(1..=faults.reorder_by.max(1));
        let turns = rng.random_range(1..=faults.delay_by.max(1));
        let (reorder, delay) = (reorder.then_some(frames), delay.then_some(turns));
        FrameFaults { drop, corrupt, duplicate, reorder, delay, rng }
    }

    /// Flip one to three different bits of one byte.
    fn damage(&self, bytes: &mut [u8]) {
        let mut rng = self.rng.clone();
        if bytes.is_empty() {
            return;
        }
        let at = rng.random_range(0..bytes.len());
        let pattern: u8 = [0b1, 0b101, 0b1011][rng.random_range(0..3)];
        bytes[at] ^= pattern.rotate_left(rng.random_range(0..8));
    }
}

/// A frame that waits until `frames` later frames were sent or `turns` turns have ended. Both count down to 0.
#[derive(Debug)]
struct WaitingFrame {
    to: Address,
    frame: Frame,
    frames: u32,
    turns: u32,
}

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
    /// The waiting frames, oldest first; how many may wait, and for how many turns each.
    waiting: Vec<WaitingFrame>,
    max_waiting: usize,
    max_turns: u32,
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
            reliable: caps.reliable && faults.drop <= 0.0 && faults.duplicate <= 0.0 && faults.corrupt <= 0.0,
            ordered: caps.ordered && faults.reorder <= 0.0 && faults.delay <= 0.0,
            ..caps
        };
        Faulty {
            inner,
            caps,
            faults,
            fate: FrameFaults::draw(&faults, 0),
            number: 0,
            waiting: Vec::with_capacity(faults.waiting),
            max_waiting: faults.waiting,
            max_turns: faults.delay_by.max(1),
            count: Count::default(),
        }
    }

    /// Change the faults from the next frame on, for instance to pull a cable and plug it in again. The bounds of waiting
    /// frames and the [`Caps`] stay as they were.
    pub fn set(&mut self, faults: Faults) {
        self.faults = faults;
        self.fate = FrameFaults::draw(&faults, self.number);
    }

    /// Send the frame, or let it wait.
    fn pass(&mut self, to: Address, frame: &Frame) -> bool {
        let (frames, turns, count) = match (self.fate.reorder, self.fate.delay) {
            (Some(frames), _) => (frames, self.max_turns, &mut self.count.reordered),
            (None, Some(turns)) => (u32::MAX, turns, &mut self.count.delayed),
            (None, None) => return self.inner.send(to, frame),
        };
        if self.waiting.len() == self.max_waiting {
            let sent = self.inner.send(to, frame);
            self.count.spared += sent as u64;
            return sent;
        }
        *count += 1;
        self.waiting.push(WaitingFrame { to, frame: frame.share(), frames, turns });
        true
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

    /// Send the frames that have waited long enough, oldest first, until there is no room.
    fn send_due(&mut self) {
        while let Some(at) = self.waiting.iter().position(|held| held.frames == 0 || held.turns == 0) {
            if !self.inner.send(self.waiting[at].to, &self.waiting[at].frame) {
                return;
            }
            self.waiting.remove(at);
            overtake(&mut self.waiting[..at]);
        }
    }
}

/// A later frame was sent: it has overtaken these.
fn overtake(older: &mut [WaitingFrame]) {
    older.iter_mut().for_each(|held| held.frames = held.frames.saturating_sub(1));
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
        let is_taken = if self.fate.drop {
            self.count.dropped += 1;
            true
        } else if self.fate.corrupt {
            self.corrupt(to, frame)
        } else if self.fate.duplicate {
            self.pass_twice(to, frame)
        } else {
            self.pass(to, frame)
        };
        if !is_taken {
            return false;
        }
        self.number += 1;
        self.fate = FrameFaults::draw(&self.faults, self.number);
        if self.waiting.len() == before {
            overtake(&mut self.waiting);
            self.send_due();
        }
        true
    }

    fn flush(&mut self) {
        self.waiting.iter_mut().for_each(|held| held.turns = held.turns.saturating_sub(1));
        self.send_due();
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

    fn read_memory(&mut self, of: Address, at: u64, into: &mut [u8]) -> bool {
        self.inner.read_memory(of, at, into)
    }

    fn room_within(&self) -> Duration {
        self.inner.room_within()
    }

    fn prefers_reading(&mut self, of: Address, bytes: u64) -> bool {
        self.inner.prefers_reading(of, bytes)
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
