//! Hosts on a simulated switch, in virtual time. The same run has the same figures on every machine.
//!
//! A host's processor is simulated by a price list (`POLL` and the others): a turn is instantaneous, and then keeps the host busy for
//! as long as it would have taken.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use am_api::{Address, Clock, Incarnation, ManualClock};
use am_netdev_sim::{MS, Nanos, Net, NetOptions, NicHandle, NodeEvent, US};

use super::host::{Host, HostClock, builder};
use super::{Arena, HostPlan, Tally};
use crate::error::Error;
use crate::plan::{Amount, DriverOptions};
use crate::watch::Watch;

/// How long the processor of a simulated host takes: for a turn of the node's loop; for each visit to one of several endpoints,
/// beside its messages; for each look at one that has none; for each frame received or sent, with all that its messages cost.
///
/// Counted instructions at three a nanosecond: 415 for a turn that finds nothing, and 450 for a frame among others, one
/// way (`docs/results/cost.txt`); 94 more for a turn with one visit (`scripts/cost visits` beside `loopback`), and a few for a look.
const POLL: Nanos = 140;
const VISIT: Nanos = 30;
const LOOK: Nanos = 5;
const FRAME: Nanos = 150;

/// An idle host looks again after this time at the latest.
const NAP: Nanos = 50 * US;
/// Between two attempts to reach a peer.
const CONNECT_INTERVAL: Nanos = 200 * US;
/// Within this virtual time all connections are open.
const CONNECT_TIMEOUT: Nanos = 2000 * MS;

/// A simulated switch.
pub struct Simulation<'a> {
    /// How nodes are opened.
    pub how: DriverOptions,
    /// Payload bytes of a frame.
    pub mtu: u32,
    /// How many times the bandwidth between the two halves of the hosts is less than that of their links.
    pub oversubscription: Option<u64>,
    /// Says when to stop.
    pub watch: &'a Watch,
}

/// A host, and when it is due.
struct Place {
    host: Host,
    /// The time of its next turn. Alarms for another time are stale.
    next: Nanos,
    /// Until then its processor works on the last turn.
    busy_until: Nanos,
    /// Frames of its NIC that were paid for.
    paid: u64,
    /// Visits and looks that were paid for.
    looked: (u64, u64),
    /// Turns take slightly different times: hosts in lockstep would show effects that no real network has.
    random: u64,
}

struct World<'a> {
    net: Rc<RefCell<Net>>,
    clock: ManualClock,
    places: Vec<Place>,
    watch: &'a Watch,
}

impl Arena for Simulation<'_> {
    fn mode(&self) -> String {
        let trunk = self.oversubscription.map_or(String::new(), |times| format!(", trunk 1:{times}"));
        format!("simulated, 10 Gb/s, poll {POLL} ns, visit {VISIT} ns, look {LOOK} ns, frame {FRAME} ns{trunk}")
    }

    fn run(&mut self, plans: &[HostPlan], amount: Amount) -> Result<Vec<Tally>, Error> {
        let mut world = self.world(plans)?;
        (0..plans.len()).for_each(|at| world.schedule(at, 0));
        let mut until = 0;
        while !world.places.iter().all(|place| place.host.is_ready()) {
            until += CONNECT_INTERVAL;
            world.run_until(until)?;
            if until > CONNECT_TIMEOUT {
                return Err(Error::Lost("not every connection opened in virtual time".to_owned()));
            }
            world.places.iter_mut().try_for_each(|place| place.host.connect())?;
        }
        let nanos = |time: Duration| time.as_nanos() as Nanos;
        world.run_until(until + nanos(amount.warm_up))?;
        world.each(Host::start_counting);
        world.run_until(until + nanos(amount.warm_up + amount.time))?;
        Ok(world.each(Host::stop_counting))
    }
}

impl Simulation<'_> {
    fn world(&self, plans: &[HostPlan]) -> Result<World<'_>, Error> {
        let nodes = plans.len();
        let calm = NetOptions::calm(nodes);
        let trunk = self.oversubscription.map(|times| calm.rate * (nodes as u64 / 2) / times);
        let options = NetOptions {
            frames: 2048,
            fill: 512,
            rx: 512,
            tx: 256,
            completion: 256,
            max_frame: self.mtu as usize + am_wire::frame::ETHERNET_HEADER,
            detect_writes: false,
            switch_buffer: 512 << 10,
            switch_addresses: 8192,
            trunk,
            ..calm
        };
        let net = Rc::new(RefCell::new(Net::new(options)));
        let (clock, hand) = Clock::manual();
        let peers: Vec<(String, Address)> =
            plans.iter().enumerate().map(|(at, plan)| (plan.name.clone(), net.borrow().address(at))).collect();
        let place = |(at, plan): (usize, &HostPlan)| {
            let known: Vec<_> = peers
                .iter()
                .filter(|(name, _)| plan.targets.iter().any(|to| is_of_group(name, &to.0)))
                .cloned()
                .collect();
            let builder = builder(plan, self.how, &known).clock(clock.clone(), Incarnation(at as u64 + 1));
            let host = Host::open(builder, plan.clone(), Box::new(NicHandle::new(&net, at)), HostClock::Virtual(0))?;
            net.borrow_mut().start_nic(at);
            Ok(Place { host, next: Nanos::MAX, busy_until: 0, paid: 0, looked: (0, 0), random: at as u64 + 1 })
        };
        let places = plans.iter().enumerate().map(place).collect::<Result<_, Error>>()?;
        Ok(World { net: Rc::clone(&net), clock: hand, places, watch: self.watch })
    }
}

/// Whether a node of this name is the target, or a member of the target's group.
fn is_of_group(name: &str, target: &str) -> bool {
    name.strip_prefix(target).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

impl World<'_> {
    fn run_until(&mut self, until: Nanos) -> Result<(), Error> {
        self.watch.check()?;
        let mut now = self.net.borrow().now();
        let mut steps = 0_u32;
        while now < until {
            let Some(event) = self.net.borrow_mut().step() else { break };
            let before = std::mem::replace(&mut now, self.net.borrow().now());
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
        place.host.set_time(now);
        let was_busy = place.host.turn(None)?;
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
        place.busy_until = now + cost + (place.random >> 33) % (cost / 8 + 1);
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

    fn each<T>(&mut self, mut what: impl FnMut(&mut Host) -> T) -> Vec<T> {
        let now = self.net.borrow().now();
        self.places
            .iter_mut()
            .map(|place| {
                place.host.set_time(now);
                what(&mut place.host)
            })
            .collect()
    }
}
