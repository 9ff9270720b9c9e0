//! A wire in memory, with two or more ends.
//!
//! ```text
//!    Loopback 1            Loopback 2            Loopback 3      one thread or three
//!    pool, steering        pool, steering        pool, steering
//!      │  ▲                  │  ▲                  │  ▲
//!      ▼  │                  ▼  │                  ▼  │
//!   ═══╧══╧══════════════════╧══╧══════════════════╧══╧═══     one queue from
//!                                                              each end to each other
//! ```
//!
//! No frame is copied: the receiver gets the sender's frame, or shares it if the sender keeps it. The frame is released to the
//! sender's pool when both have dropped it. Arriving frames are steered as by the XDP program. No frame is lost or reordered. When a
//! queue is full, `send` returns `false`.
//!
//! All ends are made together, as [`Plug`]s. Each is opened on the thread that uses it, because its pool stays on that thread. An end
//! that was opened with [`Plug::open_with`] can be opened again after it was dropped.
//!
//! ```
//! use am_transport::{Transport, loopback};
//!
//! let [left, right] = loopback::pair();
//! let far = std::thread::spawn(move || right.open().unwrap().caps().address);
//! let mut left = left.open()?;
//! assert_ne!(left.caps().address, far.join().unwrap());
//! left.flush();
//! # Ok::<(), am_ring::LayoutError>(())
//! ```

use std::fmt;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use am_ring::{Frame, Layout, LayoutError, Pool};
use am_wire::{Address, Buffer, EtherType};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::{Caps, Command, Notice, PeerAddressError, Steering, Transport};

/// The settings of a wire and all its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackOptions {
    /// Frames in the pool of each end.
    pub frames: usize,
    /// The longest frame, in bytes from the destination address on.
    pub max_frame: usize,
    /// The most frames in the queue from one end to another, rounded up to a power of two.
    pub queue: usize,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
}

impl Default for LoopbackOptions {
    /// Ethernet with an MTU of 1500.
    fn default() -> Self {
        LoopbackOptions { frames: 4096, max_frame: 1514, queue: 512, ethertype: EtherType::DEFAULT }
    }
}

/// One end of a wire. The thread that uses it opens it.
#[derive(Debug)]
pub struct Plug {
    address: Address,
    options: LoopbackOptions,
    to: Vec<Outlet>,
    from: Vec<Inlet>,
}

/// A wire with two ends, with the default [`LoopbackOptions`].
pub fn pair() -> [Plug; 2] {
    wire(2).try_into().expect("a wire of two ends has two")
}

/// A wire with this many ends, at least two, with the default [`LoopbackOptions`].
pub fn wire(ends: usize) -> Vec<Plug> {
    wire_with(ends, LoopbackOptions::default())
}

/// A wire with this many ends, at least two. Their addresses count from 02:00:00:00:00:01.
pub fn wire_with(ends: usize, options: LoopbackOptions) -> Vec<Plug> {
    let ends = ends.max(2);
    let address = |end: usize| Address::from_u64((2 << 40) + 1 + end as u64);
    let plug = |end| Plug { address: address(end), options, to: vec![], from: vec![] };
    let mut plugs: Vec<Plug> = (0..ends).map(plug).collect();
    for from in 0..ends {
        for to in (0..ends).filter(|to| *to != from) {
            let (producer, consumer) = RingBuffer::new(options.queue.next_power_of_two());
            let shown = Arc::<Shown>::default();
            plugs[from].to.push(Outlet { to: address(to), queue: producer, sent: 0, rung: 0, shown: shown.clone() });
            plugs[to].from.push(Inlet { queue: consumer, taken: 0, shown });
        }
    }
    plugs
}

impl Plug {
    /// The true address of the end.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Open the end on this thread. Its pool stays here.
    ///
    /// # Errors
    /// The options ask for an impossible pool.
    pub fn open(self) -> Result<Loopback, LayoutError> {
        self.open_with(|_| ())
    }

    /// As [`open`](Self::open). When the end is dropped or cannot be opened, `home` gets the plug back. Frames that are sent to it
    /// meanwhile are lost, as on an unplugged cable.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(mut self, home: impl FnOnce(Plug) + 'static) -> Result<Loopback, LayoutError> {
        match self.open_pool() {
            Ok(caps) => {
                self.from.iter_mut().for_each(Inlet::plug);
                let steering = Steering::new(self.options.ethertype, self.address);
                let (to, from) = (take(&mut self.to), take(&mut self.from));
                let home = Some(Home(Box::new(move |to, from| home(Plug { to, from, ..self }))));
                let (max_frame, count) = (caps.max_frame, Count::default());
                Ok(Loopback { to, from, first: 0, max_frame, count, steering, alive: 0, home, caps })
            }
            Err(error) => {
                home(self);
                Err(error)
            }
        }
    }

    fn open_pool(&self) -> Result<Caps, LayoutError> {
        let LoopbackOptions { frames, max_frame, .. } = self.options;
        // Frames start on a cache line of their own.
        let stride = max_frame.next_multiple_of(128);
        Ok(Caps {
            name: "loopback".into(),
            mode: "memory".into(),
            address: self.address,
            max_frame,
            reliable: true,
            ordered: true,
            hears_all: true,
            pool: Pool::heap(Layout { frames, stride, headroom: 0 })?,
            wake: None,
            wakes_by_level: false,
            out_of_band: None,
        })
    }
}

/// What the two ends of a queue share. It has two cache lines to itself, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shown {
    /// How many frames the doorbell has shown to the receiver in all.
    count: AtomicUsize,
    /// The receiver was open, and was closed. The sender reads this for each frame.
    is_unplugged: AtomicBool,
}

/// The sending end of a queue, on a line of the cache. The receiver takes no frame before the doorbell.
#[derive(Debug)]
#[repr(align(64))]
struct Outlet {
    to: Address,
    queue: Producer<Frame>,
    sent: usize,
    /// The value of `shown.count`. With this copy, an idle flush does not touch the shared line.
    rung: usize,
    shown: Arc<Shown>,
}

impl Outlet {
    #[inline]
    fn is_unplugged(&self) -> bool {
        self.shown.is_unplugged.load(Relaxed)
    }

    /// Put a frame into the queue. A frame to a closed end is lost, as on an unplugged cable.
    #[inline]
    fn send(&mut self, frame: &Frame, count: &mut Count) -> bool {
        if self.is_unplugged() {
            count.unplugged += 1;
            return true;
        }
        let went = self.queue.push(frame.share()).is_ok();
        self.sent = self.sent.wrapping_add(usize::from(went));
        *(if went { &mut count.sent } else { &mut count.full }) += 1;
        went
    }

    #[inline]
    fn ring_doorbell(&mut self) {
        if self.rung != self.sent {
            self.rung = self.sent;
            self.shown.count.store(self.sent, Release);
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.ring_doorbell();
    }
}

/// The receiving end of a queue.
#[derive(Debug)]
struct Inlet {
    queue: Consumer<Frame>,
    taken: usize,
    shown: Arc<Shown>,
}

impl Inlet {
    /// How many frames can be taken.
    #[inline]
    fn len(&self) -> usize {
        self.shown.count.load(Acquire).wrapping_sub(self.taken)
    }

    /// From now on frames arrive. Those that were queued before are dropped.
    fn plug(&mut self) {
        if self.shown.is_unplugged.load(Relaxed) {
            self.discard();
            self.shown.is_unplugged.store(false, Relaxed);
        }
    }

    /// From now on frames are lost. Queued frames are released to their pool at once.
    fn unplug(&mut self) {
        self.shown.is_unplugged.store(true, Relaxed);
        self.discard();
    }

    fn discard(&mut self) {
        for _ in 0..self.len() {
            drop(self.pop());
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Frame> {
        self.taken = self.taken.wrapping_add(1);
        self.queue.pop().ok()
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.unplug();
        while self.queue.pop().is_ok() {}
    }
}

/// An open end of the wire. The fields that each frame needs come first, on two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Loopback {
    /// The queues to each other end, and from each.
    to: Vec<Outlet>,
    from: Vec<Inlet>,
    /// The queue that is read first. It changes each time, so that a busy end does not starve another.
    first: usize,
    /// As in `caps`.
    max_frame: usize,
    count: Count,
    steering: Steering,
    /// Answers to [`Command::AskAlive`] that wait for the next poll: a bit for each of the first 64 ends.
    alive: u64,
    home: Option<Home>,
    caps: Caps,
}

/// Takes the plug back, with these queues.
struct Home(Box<dyn FnOnce(Vec<Outlet>, Vec<Inlet>)>);

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Home")
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.to.iter_mut().for_each(Outlet::ring_doorbell);
        self.from.iter_mut().for_each(Inlet::unplug);
        if let Some(Home(home)) = self.home.take() {
            home(take(&mut self.to), take(&mut self.from));
        }
    }
}

#[derive(Debug, Default)]
struct Count {
    sent: u64,
    received: u64,
    full: u64,
    unplugged: u64,
    too_long: u64,
}

impl Loopback {
    /// Put a frame into all queues or, if one is full, into none. So a frame that was not sent can be sent again, and no end
    /// gets it twice.
    fn flood(&mut self, frame: &Frame) -> bool {
        if self.to.iter().any(|outlet| !outlet.is_unplugged() && outlet.queue.is_full()) {
            self.count.full += 1;
            return false;
        }
        self.to.iter_mut().all(|outlet| outlet.send(frame, &mut self.count))
    }

    /// Hand over at most `budget` frames from the queue of one other end.
    fn receive_from(&mut self, end: usize, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let inlet = &mut self.from[end];
        let mut taken = 0;
        // The number of steps is fixed before the loop, so a flood of frames that steering drops cannot keep this call from
        // returning.
        for _ in 0..inlet.len() {
            if taken == budget {
                break;
            }
            let Some(frame) = inlet.pop() else { break };
            if self.steering.admits(frame.bytes()) {
                taken += 1;
                each(frame);
            }
        }
        taken
    }
}

impl Transport for Loopback {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let ends = self.from.len();
        let mut taken = 0;
        for step in 0..ends {
            let end = self.first + step;
            taken += self.receive_from(if end < ends { end } else { end - ends }, budget - taken, each);
        }
        self.first = if self.first + 1 < ends { self.first + 1 } else { 0 };
        self.count.received += taken as u64;
        taken
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        if frame.bytes().len() > self.max_frame {
            self.count.too_long += 1;
            return true;
        }
        match self.to.iter_mut().find(|outlet| outlet.to == to) {
            Some(outlet) => outlet.send(frame, &mut self.count),
            // A broadcast, or an unknown address: flooded to all ends, as a switch does.
            None => self.flood(frame),
        }
    }

    fn flush(&mut self) {
        self.to.iter_mut().for_each(Outlet::ring_doorbell);
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        if let Command::AskAlive(peer) = command {
            let is_open = |outlet: &Outlet| outlet.to == peer && !outlet.is_unplugged();
            let open = self.to.iter().position(is_open).map_or(0, |end| 1u64.checked_shl(end as u32).unwrap_or(0));
            self.alive |= open;
            return Ok(());
        }
        self.steering.control(command, &self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        if self.alive != 0 {
            let alive = take(&mut self.alive);
            let reported = self.to.iter().enumerate().filter(|(end, _)| *end < 64 && alive >> end & 1 == 1);
            reported.for_each(|(_, outlet)| each(Notice::PeerAlive(outlet.to)));
        }
        self.steering.notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("loopback_sent", self.count.sent);
        each("loopback_received", self.count.received);
        each("loopback_full", self.count.full);
        each("loopback_lost_unplugged", self.count.unplugged);
        each("loopback_lost_too_long", self.count.too_long);
        self.steering.counters(each);
    }
}
