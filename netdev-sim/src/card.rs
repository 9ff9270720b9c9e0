//! A NIC with AF_XDP's rings and rules. [`Nic`](crate::Nic) is a card with the memory of its node.

use std::collections::VecDeque;

use am_ring::{Frame, Pool};
use am_transport::{Caps, Command, Notice, PeerAddressError, Steering};
use am_wire::{Address, Buffer, EtherType};

use crate::clock::Nanos;
use crate::fault::{Driver, FaultRng};
use crate::options::NetOptions;
use crate::wire_frame::{Buffers, WireFrame};
use bouncer::Bouncer;

mod bouncer;

/// A NIC without the memory of its node: the rings, and the work of the device. It can move to any thread; the
/// [pool](Pool) of the node cannot.
///
/// ```text
///   pool ─▶ fill ─▶ (a frame arrives) ─▶ RX ─▶ receive()
///   send() ─▶ TX ─▶ (read, onto the cable) ─▶ completion ─▶ flush() ─▶ pool
/// ```
///
/// An arriving frame needs a buffer from the fill ring and room in the RX ring. The NIC reads a sent frame some time
/// after the doorbell, and owns it until the completion has been seen. While the completion ring is full, nothing is
/// sent.
#[derive(Debug)]
pub struct Card {
    steering: Steering,
    bouncer: Option<Bouncer>,
    options: NetOptions,
    dice: FaultRng,
    /// The time. The network sets it.
    pub(crate) now: Nanos,
    fill: VecDeque<Frame>,
    rx: VecDeque<Frame>,
    tx: VecDeque<InFlight>,
    /// Frames that were read, each with the time when its completion becomes visible.
    sent: VecDeque<(Nanos, InFlight)>,
    /// The doorbell was rung while the TX ring had frames.
    rung: bool,
    /// The NIC reads the TX ring.
    pub(crate) busy: bool,
    /// The card's counters.
    pub(crate) count: NicCount,
}

/// A frame that the NIC owns. `sum` is the checksum of its bytes when it was sent, if writes are to be detected.
#[derive(Debug)]
struct InFlight {
    /// `None` when a mutant has freed the frame too early.
    frame: Option<Frame>,
    index: usize,
    sum: Option<u64>,
}

impl InFlight {
    fn bytes(&self) -> &[u8] {
        self.frame.as_ref().map_or(&[], |frame| frame.bytes())
    }

    fn is_unchanged(&self) -> bool {
        self.frame.is_none() || self.sum.is_none_or(|given| sum(self.bytes()) == given)
    }
}

/// A NIC's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCount {
    /// Frames handed over.
    pub received: u64,
    /// Frames read and put onto the cable.
    pub sent: u64,
    /// Requests bounced to their senders, because the node has no room.
    pub bounced: u64,
    /// Frames that found the fill ring empty.
    pub starved: u64,
    /// Frames that found the RX ring full.
    pub rx_full: u64,
    /// Frames with a wrong check sequence.
    pub damaged: u64,
    /// Frames that the driver handed over in a wrong form.
    pub misreported: u64,
    /// Frames longer than a buffer.
    pub too_long: u64,
    /// Attempts to send that found the TX ring full.
    pub tx_full: u64,
    /// Times that the NIC stopped sending because the completion ring was full.
    pub completion_full: u64,
    /// Completions that became visible late.
    pub late_completions: u64,
    /// Doorbells and interrupts that were lost.
    pub wakeups_lost: u64,
    /// Frames that the node wrote while the NIC owned them. This is a bug of the node, not a fault of the network.
    pub overwritten: u64,
}

impl Card {
    /// A card with empty rings.
    pub(crate) fn new(options: &NetOptions, address: Address, dice: FaultRng, now: Nanos) -> Card {
        let bouncer = options.bounces.then(|| Bouncer::new(address));
        let [fill, rx] = [options.fill, options.rx].map(VecDeque::with_capacity);
        Card {
            steering: Steering::new(EtherType::DEFAULT, address),
            bouncer,
            dice,
            now,
            fill,
            rx,
            tx: VecDeque::with_capacity(options.tx),
            sent: VecDeque::with_capacity(options.completion),
            rung: false,
            busy: false,
            count: NicCount::default(),
            options: options.clone(),
        }
    }

    /// How many frames are in the fill, RX, TX and completion rings.
    pub(crate) fn ring_lengths(&self) -> [usize; 4] {
        [self.fill.len(), self.rx.len(), self.tx.len(), self.sent.len()]
    }

    /// The pool's numbers of the frames in the four rings.
    pub(crate) fn frame_numbers_held(&self) -> impl Iterator<Item = usize> {
        let in_flight = self.tx.iter().chain(self.sent.iter().map(|(_, sent)| sent)).map(|frame| frame.index);
        self.fill.iter().chain(&self.rx).map(Frame::index).chain(in_flight)
    }

    /// Whether frames wait to be received.
    pub(crate) fn has_arrivals(&self) -> bool {
        !self.rx.is_empty()
    }

    /// Fill the fill ring from the pool.
    pub(crate) fn refill(&mut self, pool: &Pool) {
        while self.fill.len() < self.options.fill
            && let Some(empty) = pool.take()
        {
            self.fill.push_back(empty);
        }
    }

    /// A frame arrived from the cable. Returns whether the node is woken.
    pub(crate) fn arrive(&mut self, frame: &WireFrame) -> bool {
        let bytes = frame.bytes();
        if self.drops(frame) {
            self.count.damaged += 1;
            return false;
        }
        if self.options.driver != Driver::Honest && self.dice.strikes(self.now, self.options.misreports) {
            self.count.misreported += 1;
            let parts = self.options.driver.hand_over(bytes);
            return parts.iter().filter(|part| self.accept(part)).count() > 0;
        }
        self.accept(bytes)
    }

    /// The driver hands over a frame. Returns whether the node is woken.
    fn accept(&mut self, bytes: &[u8]) -> bool {
        // The XDP program steers before a buffer of the fill ring is used.
        if !self.steering.admits(bytes) {
            return false;
        }
        if self.rx.len() >= self.options.rx {
            self.count.rx_full += 1;
            return false;
        }
        let Some(mut empty) = self.fill.pop_front() else {
            self.count.starved += 1;
            return false;
        };
        let Some(space) = empty.space().and_then(|space| space.get_mut(..bytes.len())) else {
            self.count.too_long += 1;
            self.fill.push_front(empty);
            return false;
        };
        space.copy_from_slice(bytes);
        empty.set_len(bytes.len());
        self.rx.push_back(empty);
        self.deliver_wakeup()
    }

    /// The reject that the XDP program makes of a request, if the node has no room for it.
    pub(crate) fn bounce(&mut self, frame: &WireFrame, buffers: &mut Buffers) -> Option<WireFrame> {
        let reject = self.bouncer.as_ref()?.reject(frame.bytes()).filter(|_| !self.drops(frame))?;
        self.count.bounced += 1;
        Some(buffers.wire_frame(&reject))
    }

    fn drops(&self, frame: &WireFrame) -> bool {
        frame.is_damaged() && self.options.check
    }

    fn deliver_wakeup(&mut self) -> bool {
        let lost = self.dice.strikes(self.now, self.options.lost_wakeup);
        self.count.wakeups_lost += lost as u64;
        !lost
    }

    /// Whether the NIC starts to read its TX ring now: the doorbell was rung while the NIC was idle.
    pub(crate) fn start_if_rung(&mut self) -> bool {
        let starts = std::mem::take(&mut self.rung) && !self.busy;
        self.busy |= starts;
        starts
    }

    /// Whether a flush has work to do: the card has frames to give back, or its fill ring is not full.
    pub(crate) fn needs_flush(&self) -> bool {
        !self.tx.is_empty() || !self.sent.is_empty() || self.fill.len() < self.options.fill
    }

    /// How many frames the TX ring has room for.
    pub(crate) fn tx_room(&self) -> usize {
        self.options.tx - self.tx.len()
    }

    /// As [`read`](Self::read), for an unplugged card: no completions are made.
    pub(crate) fn read_on_unplug(&mut self, buffers: &mut Buffers) -> Option<WireFrame> {
        let in_flight = self.tx.pop_front().filter(|_| self.busy)?;
        self.count.sent += 1;
        Some(buffers.wire_frame(in_flight.bytes()))
    }

    /// Read the next frame to send. `None` when the NIC goes idle until the next doorbell.
    pub(crate) fn read(&mut self, buffers: &mut Buffers) -> Option<WireFrame> {
        let has_room = self.sent.len() < self.options.completion;
        self.count.completion_full += (!has_room && !self.tx.is_empty()) as u64;
        let next = if has_room { self.tx.pop_front() } else { None };
        let Some(mut in_flight) = next else {
            self.busy = false;
            return None;
        };
        self.count.overwritten += !in_flight.is_unchanged() as u64;
        self.count.sent += 1;
        let on_wire = buffers.wire_frame(in_flight.bytes());
        if self.options.frees_early {
            in_flight.frame = None;
        }
        let visible_at = self.now + self.dice.draw_up_to(self.options.completion_delay);
        // Completions appear in the order of the ring.
        let visible_at = self.sent.back().map_or(visible_at, |(last, _)| visible_at.max(*last));
        self.count.late_completions += (visible_at > self.now) as u64;
        self.sent.push_back((visible_at, in_flight));
        Some(on_wire)
    }

    /// See [`Transport::receive`](am_transport::Transport::receive). The next methods are the other calls of the trait.
    pub(crate) fn receive(&mut self, budget: usize, pool: &Pool, each: &mut dyn FnMut(Frame)) -> usize {
        let taken = budget.min(self.rx.len());
        self.rx.drain(..taken).for_each(each);
        self.count.received += taken as u64;
        self.refill(pool);
        taken
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> bool {
        if frame.bytes().len() > self.options.max_frame {
            self.count.too_long += 1;
            return true;
        }
        if self.tx.len() >= self.options.tx {
            self.count.tx_full += 1;
            return false;
        }
        let (index, sum) = (frame.index(), self.options.detect_writes.then(|| sum(frame.bytes())));
        self.tx.push_back(InFlight { frame: Some(frame.share()), index, sum });
        true
    }

    pub(crate) fn flush(&mut self, pool: &Pool) {
        while let Some((visible_at, _)) = self.sent.front()
            && *visible_at <= self.now
            && let Some((_, in_flight)) = self.sent.pop_front()
        {
            self.count.overwritten += !in_flight.is_unchanged() as u64;
        }
        self.refill(pool);
        if !self.tx.is_empty() && !self.busy {
            self.rung |= self.deliver_wakeup();
        }
    }

    pub(crate) fn control(&mut self, command: Command<'_>, caps: &Caps) -> Result<(), PeerAddressError> {
        if let Some(bouncer) = &mut self.bouncer {
            bouncer.control(command);
        }
        self.steering.control(command, caps)
    }

    pub(crate) fn notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.steering.notices(each);
    }

    pub(crate) fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("sim_received", self.count.received);
        each("sim_sent", self.count.sent);
        each("sim_bounced", self.count.bounced);
        each("sim_starved", self.count.starved);
        each("sim_rx_full", self.count.rx_full);
        each("sim_tx_full", self.count.tx_full);
        each("sim_completion_full", self.count.completion_full);
        each("sim_late_completions", self.count.late_completions);
        each("sim_damaged", self.count.damaged);
        each("sim_misreported", self.count.misreported);
        each("sim_lost_too_long", self.count.too_long);
        each("sim_wakeups_lost", self.count.wakeups_lost);
        each("sim_overwritten", self.count.overwritten);
        self.steering.counters(each);
    }
}

/// A checksum in the manner of FNV, eight bytes at a time. Different bytes give different sums.
fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| step(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| step(sum, byte as u64))
}

#[cfg(test)]
mod tests;
