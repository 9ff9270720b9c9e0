//! A run: the network, its nodes, and the checks.

use std::cell::RefCell;
use std::rc::Rc;

use am_api::{Clock, ManualClock};
use am_netdev_sim::check::content::NodeRun;
use am_netdev_sim::check::endings::Liveness;
use am_netdev_sim::check::frames;
use am_netdev_sim::check::turns::Turns;
use am_netdev_sim::check::{Checked, Violation};
use am_netdev_sim::{MS, Nanos, Net, NetOptions, NodeEvent};
use am_proto::Time;

use super::seen::{Common, Seen};
use crate::simulated::node::Side;
use crate::simulated::work::Work;

pub(crate) struct World {
    net: Rc<RefCell<Net>>,
    clock: Clock,
    hand: ManualClock,
    common: Rc<Common>,
    work: Work,
    places: Vec<Place>,
    turns: Turns,
    liveness: Liveness,
    counted: Seen,
}

/// Where a node is, or was.
#[derive(Default)]
struct Place {
    side: Option<Side>,
    run: u16,
}

/// After everything is drained, for so long nothing must happen to it.
const CALM: Nanos = 20 * MS;

impl World {
    pub(crate) fn new(options: NetOptions, work: Work) -> World {
        let quiet_from = options.last_fault();
        let (clock, hand) = Clock::manual();
        let common = Common { nodes: options.nodes as u16, quiet_from, ..Common::default() };
        let places = (0..options.nodes).map(|_| Place::default()).collect();
        let liveness = Liveness { from: quiet_from, within: 3 * work.patience + 2000 * MS };
        let net = Net::new(options);
        let turns = Turns::of(&net);
        let (net, common, counted) = (Rc::new(RefCell::new(net)), Rc::new(common), Seen::new());
        let mut world = World { net, clock, hand, common, work, places, turns, liveness, counted };
        (0..world.places.len()).for_each(|at| world.start(at));
        world
    }

    fn start(&mut self, at: usize) {
        let run = self.places[at].run + 1;
        let who = NodeRun { node: at as u16, run };
        self.hand.set(Time(self.now()));
        let side = Side::start(&self.net, &self.clock, &self.common, &self.work, who);
        self.net.borrow_mut().start_nic(at);
        self.places[at] = Place { side: Some(side), run };
        self.turns.start(&mut self.net.borrow_mut(), at);
    }

    fn now(&self) -> Nanos {
        self.net.borrow().now()
    }

    /// A turn no later than that.
    fn schedule(&mut self, at: usize, when: Nanos) {
        self.turns.schedule(&mut self.net.borrow_mut(), at, when);
    }

    fn step(&mut self) -> Option<(usize, Option<NodeEvent>)> {
        self.net.borrow_mut().step_once()
    }

    /// Until everything is drained; then every connection has to carry one more request.
    pub(crate) fn run(&mut self) -> Result<Seen, Violation> {
        let (mut drained, mut encored) = (None, false);
        while let Some(step) = self.step() {
            if !self.on_step(step)? || self.now() < self.common.quiet_from {
                continue;
            }
            let (now, undecided) = (self.now(), self.undecided());
            if undecided > 0 {
                drained = None;
                self.liveness.check(now, undecided).map_err(|violation| self.explain(violation))?;
            } else if now > *drained.get_or_insert(now) + CALM {
                if encored {
                    break;
                }
                encored = true;
                self.liveness.from = now;
                self.encore();
            }
        }
        self.liveness.check(Nanos::MAX, self.undecided())?;
        self.finish()
    }

    fn encore(&mut self) {
        for at in 0..self.places.len() {
            if let Some(side) = &mut self.places[at].side {
                side.app.encore();
                self.schedule(at, self.now());
            }
        }
    }

    /// Everybody goes, and all frames are back or the NIC's.
    fn finish(&mut self) -> Result<Seen, Violation> {
        let mut seen = std::mem::take(&mut self.counted);
        for at in 0..self.places.len() {
            let Some(side) = self.places[at].side.take() else { continue };
            side.count(&mut seen);
            side.end();
            frames::check_quiet(self.net.borrow_mut().nic(at))?;
        }
        let checks = self.common.checks.borrow();
        checks.seen.iter().for_each(|(name, count)| *seen.entry(name).or_default() += count);
        let (delivered, returned) = checks.deliveries.counts();
        seen.extend([("delivered", delivered), ("returned in the end", returned)]);
        Ok(seen)
    }

    fn undecided(&self) -> usize {
        let checks = self.common.checks.borrow();
        let sides = self.places.iter().filter_map(|place| place.side.as_ref());
        checks.deliveries.unresolved() + checks.transfers.unresolved() + sides.map(Side::undecided).sum::<usize>()
    }

    fn explain(&self, mut violation: Violation) -> Violation {
        let checks = self.common.checks.borrow();
        let (messages, transfers) = (checks.deliveries.unresolved(), checks.transfers.unresolved());
        let (message, transfer) = (checks.deliveries.first_unresolved(), checks.transfers.first_unresolved());
        let what = format!("; {messages} are messages, as {message:?}, {transfers} are transfers, as {transfer:?}");
        violation.what += &what;
        violation
    }

    /// One event, and all checks that it may concern; whether it concerned a node.
    fn on_step(&mut self, (at, happening): (usize, Option<NodeEvent>)) -> Result<bool, Violation> {
        self.turns.check(&mut self.net.borrow_mut(), at, happening)?;
        let Some(happening) = happening else { return Ok(false) };
        self.on(happening)?;
        self.turns.record(&mut self.net.borrow_mut(), at);
        self.common.checks.borrow_mut().take()?;
        Ok(true)
    }

    fn on(&mut self, happening: NodeEvent) -> Checked {
        let now = self.now();
        match happening {
            NodeEvent::Alarm(at) if self.turns.begin(&self.net.borrow(), at) => self.turn(at),
            NodeEvent::Alarm(_) => (),
            NodeEvent::Wake(at) => self.schedule(at, now),
            NodeEvent::Stall(at, until) => self.turns.stall(&mut self.net.borrow_mut(), at, until),
            NodeEvent::Restart(at) => {
                self.common.saw("restarted");
                self.start(at);
            }
            NodeEvent::Death(at) => return self.death(at),
        }
        Ok(())
    }

    fn turn(&mut self, at: usize) {
        let now = self.now();
        self.hand.set(Time(now));
        let Some(side) = &mut self.places[at].side else { return };
        let due = side.turn(now);
        self.net.borrow_mut().start_nic(at);
        self.schedule(at, due);
    }

    fn death(&mut self, at: usize) -> Checked {
        self.common.saw("died");
        self.turns.cancel(at);
        let Some(side) = self.places[at].side.take() else { return Ok(()) };
        self.common.died(side.app.run);
        side.count(&mut self.counted);
        side.die()
    }
}
