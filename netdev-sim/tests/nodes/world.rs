//! A run: the network, its nodes, and the checks after every turn.

use netdev_sim::check::content::Run;
use netdev_sim::check::frames;
use netdev_sim::check::liveness::Liveness;
use netdev_sim::check::{Checked, Violation};
use netdev_sim::{Happening, MS, Nanos, Net, Options};
use proto::FlowState;

use super::checks::Checks;
use super::node::Node;
use super::work::Work;

pub struct World {
    pub net: Net,
    work: Work,
    places: Vec<Place>,
    checks: Checks,
    liveness: Liveness,
}

/// Where a node is, or was.
struct Place {
    node: Option<Node>,
    run: u16,
    since: Nanos,
    /// When its next turn is; alarms for another time are stale.
    next: Nanos,
    stalled_until: Nanos,
}

/// What a run without a violation was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub delivered: u64,
    pub returned: u64,
    pub events: u64,
    /// From the last fault until everything was drained.
    pub drained_in: Nanos,
    pub digest: u64,
}

impl World {
    pub fn new(options: Options, work: Work) -> World {
        let quiet_from = last_fault(&options);
        let net = Net::new(options);
        let places = (0..net.options().nodes)
            .map(|_| Place { node: None, run: 0, since: 0, next: Nanos::MAX, stalled_until: 0 })
            .collect();
        let checks = Checks { quiet_from, ..Checks::default() };
        // Who is asked for and gone is waited for as long as patience lasts, and so is a message.
        let liveness = Liveness { from: quiet_from, within: 3 * work.patience + 500 * MS };
        let mut world = World { net, work, places, checks, liveness };
        (0..world.places.len()).for_each(|at| world.start(at));
        world
    }

    fn start(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.run += 1;
        place.since = self.net.now();
        place.stalled_until = 0;
        place.next = Nanos::MAX;
        place.node = Some(Node::start(&mut self.net, &self.work, Run { node: at as u16, run: place.run }));
        self.schedule(at, self.net.now());
    }

    /// A turn no later than that.
    fn schedule(&mut self, at: usize, when: Nanos) {
        let place = &mut self.places[at];
        let when = when.max(place.stalled_until).max(self.net.now());
        if when < place.next {
            place.next = when;
            self.net.alarm(when, at);
        }
    }

    /// Until everything is drained, and then for a while that shows that it stays so.
    pub fn run(&mut self) -> Result<Report, Violation> {
        let mut drained = None;
        while let Some(happening) = self.net.step() {
            self.on(happening)?;
            let now = self.net.now();
            if now < self.checks.quiet_from {
                continue;
            }
            let since = *drained.get_or_insert(now);
            let undecided = self.undecided();
            if undecided > 0 {
                drained = None;
                self.liveness.check(now, undecided).map_err(|violation| self.explain(violation))?;
            } else if now > since + 2 * self.work.patience + 200 * MS {
                self.at_the_end()?;
                return Ok(self.report(since));
            }
        }
        // Nobody is left: whoever lives says so from time to time.
        self.liveness.check(Nanos::MAX, self.undecided())?;
        Ok(self.report(self.net.now().max(self.checks.quiet_from)))
    }

    fn on(&mut self, happening: Happening) -> Checked {
        let now = self.net.now();
        match happening {
            Happening::Alarm(at) if self.places[at].next == now => self.turn(at),
            Happening::Alarm(_) => Ok(()),
            Happening::Wake(at) => {
                self.schedule(at, now);
                Ok(())
            }
            Happening::Stall(at, until) => {
                self.stall(at, until);
                Ok(())
            }
            Happening::Death(at) => self.death(at),
            Happening::Restart(at) => {
                self.start(at);
                Ok(())
            }
        }
    }

    fn turn(&mut self, at: usize) -> Checked {
        self.places[at].next = Nanos::MAX;
        let Some(node) = self.places[at].node.as_mut() else { return Ok(()) };
        let due = node.turn(&mut self.net, &mut self.checks)?;
        self.schedule(at, due);
        Ok(())
    }

    fn stall(&mut self, at: usize, until: Nanos) {
        self.places[at].stalled_until = until;
        self.places[at].next = Nanos::MAX;
        self.schedule(at, until);
    }

    fn death(&mut self, at: usize) -> Checked {
        let Some(node) = self.places[at].node.take() else { return Ok(()) };
        self.places[at].next = Nanos::MAX;
        self.checks.deliveries.died(Run { node: at as u16, run: self.places[at].run });
        node.end(self.net.options().frames)
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.places.iter().filter_map(|place| place.node.as_ref())
    }

    fn undecided(&self) -> usize {
        self.checks.deliveries.unresolved() + self.nodes().map(|node| node.app.undecided(&node.engine)).sum::<usize>()
    }

    fn explain(&self, mut violation: Violation) -> Violation {
        if let Some(id) = self.checks.deliveries.first_unresolved() {
            violation.what += &format!("; the first message is {id:?}");
        }
        violation
    }

    fn at_the_end(&mut self) -> Checked {
        for at in 0..self.places.len() {
            if self.places[at].node.is_none() {
                continue;
            }
            frames::quiet(self.net.nic(at))?;
            let lossless = self.is_lossless();
            let Some(node) = &self.places[at].node else { continue };
            for (flow, left) in node.app.credits(&node.engine).filter(|(flow, _)| self.both_ends_live(flow)) {
                self.checks.credits.settled(flow.serial, left, lossless)?;
            }
        }
        Ok(())
    }

    /// Whether every frame that was sent has been seen.
    fn is_lossless(&mut self) -> bool {
        let switch = self.net.switch().count();
        let options = self.net.options();
        let calm = options.loss + options.corrupt + options.lost_wakeup == 0.0 && options.deaths.is_empty();
        let nics = (0..self.places.len()).all(|at| {
            let count = self.net.nic(at).count();
            count.starved + count.rx_full == 0
        });
        calm && nics && switch.full + switch.damaged + switch.parted == 0
    }

    /// A flow can be over at the other side, and nobody said anything on it since.
    fn both_ends_live(&self, flow: &super::app::Flow) -> bool {
        let Some(peer) = &self.places[flow.to as usize].node else { return false };
        let state = peer.app.accepted.get(&flow.serial).map(|&id| peer.engine.core().state(id));
        matches!(state, Some(FlowState::Open { .. }))
    }

    fn report(&self, drained: Nanos) -> Report {
        let (delivered, returned) = self.checks.deliveries.counts();
        let drained_in = drained - self.checks.quiet_from;
        Report { delivered, returned, events: self.net.events(), drained_in, digest: self.checks.digest }
    }
}

fn last_fault(options: &Options) -> Nanos {
    let partitions = options.partitions.iter().map(|partition| partition.until);
    let stalls = options.stalls.iter().map(|stall| stall.until);
    let deaths = options.deaths.iter().map(|death| death.restart.unwrap_or(death.at));
    partitions.chain(stalls).chain(deaths).fold(options.faults_until, Nanos::max)
}
