//! A node's NIC on a network of several threads.

use std::collections::VecDeque;

use ring::Frame;
use transport::{Caps, Transport};
use wire::bounce::Back;
use wire::{Address, Flow};

use super::names::{OpenError, Seat};
use super::settings::Settings;
use crate::clock::{Nanos, US};
use crate::nic;

/// When nothing came for so long, the thread may be about to sleep. That costs some calls of the system, and who sends the
/// next frame another: who spins for an answer is not to get there.
const AWAKE: Nanos = 50 * US;

/// A node's NIC on a simulated network of this process.
#[derive(Debug)]
pub struct Live {
    caps: Caps,
    seat: Seat,
    /// Taken from the NIC, and not yet handed over: not under the network's lock.
    inbox: VecDeque<Frame>,
    /// The NIC has frames of ours to give back, or wants blanks.
    is_owed: bool,
    /// Nothing came since.
    idle: Option<Nanos>,
    /// Who polls our descriptor sleeps, as far as we know.
    is_armed: bool,
    /// What is wrong where nobody else is here.
    alone: String,
}

/// Onto the network of this seed, which is made where nobody is on it.
///
/// ```
/// use netdev_sim::live;
/// use transport::Transport;
///
/// let near = live::open(&live::Settings { seed: 7, loss: Some(0.01), ..Default::default() })?;
/// let far = live::open(&live::Settings { seed: 7, ..Default::default() })?;
/// assert_eq!((&near.caps().name[..], far.caps().mode.contains("loss=0.01")), ("sim:7", true));
/// assert_ne!(near.caps().address, far.caps().address);
/// # Ok::<(), live::OpenError>(())
/// ```
///
/// # Errors
/// See [`OpenError`].
pub fn open(settings: &Settings) -> Result<Live, OpenError> {
    let seat = Seat::take(settings)?;
    let (network, node) = (&seat.network, seat.node);
    let options = network.settings().options();
    let caps = nic::caps(&options, network.address(node))?;
    let caps = Caps { mode: network.settings().mode(), wake: Some(seat.wake.clone()), ..caps };
    network.with(node, |card| card.refill(&caps.pool));
    let alone = format!("nobody else of this process is on `{}`, and another process has one of its own", caps.name);
    let inbox = VecDeque::with_capacity(options.rx);
    Ok(Live { caps, seat, inbox, is_owed: false, idle: None, is_armed: false, alone })
}

impl Live {
    /// Nothing came: the thread may sleep, if it was so for long enough.
    fn rest(&mut self, now: Nanos) {
        let since = *self.idle.get_or_insert(now);
        if !self.is_armed && now.saturating_sub(since) >= AWAKE {
            self.is_armed = self.seat.network.doze(self.seat.node);
        }
    }

    /// Into the inbox, at most so many.
    fn fetch(&mut self, budget: usize) {
        let Live { caps, seat, inbox, is_owed, .. } = self;
        *is_owed = seat.network.with(seat.node, |card| {
            card.receive(budget, &caps.pool, &mut |frame| inbox.push_back(frame));
            card.is_owing()
        });
    }
}

impl Transport for Live {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let now = self.seat.network.now();
        if !self.seat.network.is_quiet(self.seat.node, now, self.is_armed) {
            self.fetch(budget);
        }
        let taken = self.inbox.len();
        if taken == 0 {
            self.rest(now);
        } else {
            (self.idle, self.is_armed) = (None, false);
        }
        self.inbox.drain(..).for_each(each);
        taken
    }

    fn send(&mut self, _to: Address, frame: Frame) -> Result<(), Frame> {
        self.is_owed = true;
        self.seat.network.touch(self.seat.node, |card| card.send(frame))
    }

    fn flush(&mut self) {
        if self.is_owed {
            let (node, pool) = (self.seat.node, &self.caps.pool);
            self.is_owed = self.seat.network.with(node, |card| {
                card.flush(pool);
                card.is_owing()
            });
        }
    }

    fn steer(&mut self, flow: Flow, open: bool) {
        self.seat.network.with(self.seat.node, |card| card.steer(flow, open));
    }

    fn way_back(&mut self, flow: Flow, back: &Back) {
        self.seat.network.with(self.seat.node, |card| card.way_back(flow, back));
    }

    fn full(&mut self, is_full: bool) {
        self.seat.network.with(self.seat.node, |card| card.full(is_full));
    }

    fn stray(&mut self) -> Option<Flow> {
        self.seat.network.touch(self.seat.node, |card| card.stray())
    }

    fn broken(&mut self) -> Option<&str> {
        (self.seat.network.present() < 2).then_some(&self.alone)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.seat.network.counters(self.seat.node).into_iter().for_each(|(name, value)| each(name, value));
    }
}
