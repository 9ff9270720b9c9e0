//! Hosts of any kind on a simulated switch, in virtual time. The same run has the same figures on every machine.
//!
//! A host's processor is simulated by a price list (`POLL` and the others): a turn is instantaneous, and then keeps the host busy for
//! as long as it would have taken.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use am_api::{Address, Clock, ManualClock, Transport};
use am_netdev_sim::{Net, NetOptions, NicHandle, NodeEvent, US};

pub use am_netdev_sim::Nanos;

use crate::error::Error;
use crate::watch::Watch;

/// How long the processor of a simulated host takes: for a turn of the node's loop; for each visit to one of several endpoints,
/// beside its messages; for each look at one that has none; for each frame received or sent, with all that its messages cost.
///
/// Counted instructions at three a nanosecond: 415 for a turn that finds nothing, and 450 for a frame among others, one
/// way (`docs/results/cost.txt`); 94 more for a turn with one visit (`scripts/cost visits` beside `loopback`), and a few for a look.
pub const POLL: Nanos = 140;
pub(super) const VISIT: Nanos = 30;
pub(super) const LOOK: Nanos = 5;
/// The price of a frame.
pub const FRAME: Nanos = 150;

/// An idle host looks again after this time at the latest.
const NAP: Nanos = 50 * US;

/// A host of a [`World`].
pub trait Simulated {
    /// A turn at this time. Returns whether there was anything to do.
    fn turn(&mut self, now: Nanos) -> Result<bool, Error>;

    /// How often it served one of several endpoints, and looked at one without messages.
    fn visits_and_looks(&self) -> (u64, u64) {
        (0, 0)
    }

    /// What the last turn took beside its frames and endpoints: what a program has computed.
    fn computed(&mut self) -> Nanos {
        0
    }
}

/// What joins the hosts of a [`World`].
#[derive(Clone, Copy, Debug)]
pub struct Cable {
    /// The payload of a frame.
    pub mtu: u32,
    /// How many times the bandwidth between the two halves of the hosts is less than that of their links.
    pub oversubscription: Option<u64>,
    /// From a host to the switch, and from there to another host.
    pub delay: Nanos,
}

/// What a host of a [`World`] is opened with.
pub struct Seat {
    /// Its place among the hosts.
    pub at: usize,
    /// Its NIC.
    pub transport: Box<dyn Transport>,
    /// The time of the world.
    pub clock: Clock,
    /// The addresses of all hosts.
    pub addresses: Vec<Address>,
}

/// A host, and when it is due.
struct Place<H> {
    host: H,
    /// The time of its next turn. Alarms for another time are stale.
    next: Nanos,
    /// Until then its processor works on the last turn.
    busy_until: Nanos,
    /// Of the time so far, what its processor worked.
    worked: Nanos,
    /// Frames of its NIC that were paid for.
    paid: u64,
    /// Visits and looks that were paid for.
    looked: (u64, u64),
    /// Turns take slightly different times: hosts in lockstep would show effects that no real network has.
    random: u64,
}

/// Hosts on a switch, and the time.
pub struct World<'a, H> {
    net: Rc<RefCell<Net>>,
    clock: ManualClock,
    places: Vec<Place<H>>,
    watch: &'a Watch,
}

impl<'a, H: Simulated> World<'a, H> {
    /// A switch with this many hosts, which `open` opens. `mtu` is the payload of a frame, `oversubscription` how many times the bandwidth between
    /// the two halves of the hosts is less than that of their links.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn new(
        hosts: usize,
        mtu: u32,
        oversubscription: Option<u64>,
        watch: &'a Watch,
        open: impl FnMut(Seat) -> Result<H, Error>,
    ) -> Result<World<'a, H>, Error> {
        let delay = NetOptions::calm(hosts).delay;
        World::joined(hosts, Cable { mtu, oversubscription, delay }, watch, open)
    }

    /// The same, over this cable.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn joined(
        hosts: usize,
        Cable { mtu, oversubscription, delay }: Cable,
        watch: &'a Watch,
        mut open: impl FnMut(Seat) -> Result<H, Error>,
    ) -> Result<World<'a, H>, Error> {
        let calm = NetOptions::calm(hosts);
        let trunk = oversubscription.map(|times| calm.rate * (hosts as u64 / 2) / times);
        let options = NetOptions {
            frames: 2048,
            fill: 512,
            rx: 512,
            tx: 256,
            completion: 256,
            max_frame: mtu as usize + am_wire::frame::ETHERNET_HEADER,
            detect_writes: false,
            switch_buffer: 512 << 10,
            switch_addresses: 8192,
            trunk,
            delay,
            ..calm
        };
        let net = Rc::new(RefCell::new(Net::new(options)));
        let (clock, hand) = Clock::manual();
        let addresses: Vec<Address> = (0..hosts).map(|at| net.borrow().address(at)).collect();
        let place = |at: usize| {
            let transport = Box::new(NicHandle::new(&net, at));
            let host = open(Seat { at, transport, clock: clock.clone(), addresses: addresses.clone() })?;
            net.borrow_mut().start_nic(at);
            let random = at as u64 + 1;
            Ok(Place { host, next: Nanos::MAX, busy_until: 0, worked: 0, paid: 0, looked: (0, 0), random })
        };
        let places = (0..hosts).map(place).collect::<Result<_, Error>>()?;
        let mut world = World { net: Rc::clone(&net), clock: hand, places, watch };
        (0..hosts).for_each(|at| world.schedule(at, 0));
        Ok(world)
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.net.borrow().now()
    }

    /// The hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &H> {
        self.places.iter().map(|place| &place.host)
    }

    /// The same, to change them.
    pub fn hosts_mut(&mut self) -> impl Iterator<Item = &mut H> {
        self.places.iter_mut().map(|place| &mut place.host)
    }

    /// How long the processor of this host has worked so far, and the frames that it has received and sent.
    pub fn work(&self, at: usize) -> (Nanos, [u64; 2]) {
        let count = self.net.borrow_mut().nic(at).count();
        (self.places[at].worked, [count.received, count.sent])
    }

    /// Go on until that time.
    ///
    /// # Errors
    /// Those of turns; an interrupt.
    pub fn run_until(&mut self, until: Nanos) -> Result<(), Error> {
        self.watch.check()?;
        let mut now = self.now();
        let mut steps = 0_u32;
        while now < until {
            let Some(event) = self.net.borrow_mut().step() else { break };
            let before = std::mem::replace(&mut now, self.now());
            self.clock.advance(Duration::from_nanos(now - before));
            match event {
                NodeEvent::Alarm(at) if self.places[at].next == now => {
                    self.places[at].next = Nanos::MAX;
                    self.turn(at, now)?;
                }
                NodeEvent::Wake(at) => self.schedule(at, now),
                _ => {}
            }
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(4096) {
                self.watch.check()?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, at: usize, now: Nanos) -> Result<(), Error> {
        let place = &mut self.places[at];
        let was_busy = place.host.turn(now)?;
        let mut net = self.net.borrow_mut();
        net.start_nic(at);
        let (count, has_more) = (net.nic(at).count(), net.nic(at).has_arrivals());
        drop(net);
        let frames = count.received + count.sent;
        let (visits, looks) = place.host.visits_and_looks();
        let endpoints = VISIT * (visits - place.looked.0) + LOOK * (looks - place.looked.1);
        let cost = POLL + endpoints + FRAME * (frames - place.paid);
        (place.paid, place.looked) = (frames, (visits, looks));
        place.random = place.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let cost = cost + (place.random >> 33) % (cost / 8 + 1) + place.host.computed();
        place.busy_until = now + cost;
        place.worked += cost;
        let due = if was_busy || has_more { place.busy_until } else { now + NAP };
        self.schedule(at, due);
        Ok(())
    }

    /// Let this host have its turn at that time, or once it is no longer busy; unless it has one before.
    fn schedule(&mut self, at: usize, when: Nanos) {
        let place = &mut self.places[at];
        let when = when.max(place.busy_until);
        if when < place.next {
            place.next = when;
            self.net.borrow_mut().alarm(when, at);
        }
    }
}
