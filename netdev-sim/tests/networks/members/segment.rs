//! Nodes that watch members, on one switch. A frame costs its node time.

use std::collections::BTreeSet;

use am_engine::{Engine, PollScope};
use am_netdev_sim::check::turns::Turns;
use am_netdev_sim::{MS, Nanos, Net, NetOptions, NodeEvent, US};
use am_proto::{Config, Core, Departure, Event, MemberChange, Time};
use am_transport::Transport;
use am_wire::control::{Incarnation, Name, NodeId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The time of a turn without frames.
const TURN_TIME: Nanos = 2 * US;

pub struct Segment {
    net: Net,
    /// The nodes that run.
    stations: Vec<Option<Engine>>,
    /// A node works on the frames of its last turn until the next.
    turns: Turns,
    /// When each node starts.
    starts: Vec<Nanos>,
    /// The time that a node needs for a frame.
    cost: Nanos,
    /// Members that a node reported as silent: (the node, the member).
    pub silent: Vec<(usize, usize)>,
}

fn name(node: usize) -> Name {
    Name::new(&format!("node{node}")).expect("short")
}

impl Segment {
    /// This number of nodes, which start within this time.
    pub fn new(seed: u64, nodes: usize, starts_within: Nanos, cost: Nanos) -> Segment {
        let calm = NetOptions::calm(nodes);
        let options = NetOptions {
            seed,
            frames: 256,
            rx: 128,
            switch_addresses: 2 * nodes,
            detect_writes: false,
            loss: 0.01,
            faults_until: Nanos::MAX,
            ..calm
        };
        let mut random = SmallRng::seed_from_u64(seed);
        let starts: Vec<Nanos> = (0..nodes).map(|_| random.random_range(0..starts_within.max(1))).collect();
        let mut net = Net::new(options);
        starts.iter().enumerate().for_each(|(at, start)| net.alarm(*start, at));
        let stations = (0..nodes).map(|_| None).collect();
        let turns = Turns::of(&net);
        Segment { net, stations, turns, starts, cost, silent: vec![] }
    }

    fn start(&mut self, at: usize) {
        let name = name(at);
        let mut config = Config::new(NodeId::of(&name), Incarnation(1), name, self.net.address(at));
        config.seed = at as u64 * 7919;
        (config.receive_frames, config.send_frames) = (16, 16);
        let now = self.net.now();
        let mut core = Core::new(config, Time(now));
        core.watch_members();
        let engine = Engine::new(core, self.net.nic(at).caps().pool.clone());
        self.stations[at] = Some(engine);
        self.turns.start(&mut self.net, at);
    }

    /// The node is killed.
    pub fn kill(&mut self, at: usize) {
        self.stations[at] = None;
    }

    /// The node is descheduled.
    pub fn stop(&mut self, at: usize, time: Nanos) {
        let until = self.net.now() + time;
        self.turns.stall(&mut self.net, at, until);
    }

    /// Let time pass.
    pub fn run(&mut self, time: Nanos) {
        let until = self.net.now() + time;
        self.net.alarm(until, 0);
        while self.net.now() < until
            && let Some(happening) = self.net.step()
        {
            let (at, now) = (happening.node(), self.net.now());
            match (happening, &self.stations[at]) {
                (NodeEvent::Alarm(_), Some(_)) if self.turns.begin(&self.net, at) => self.turn(at),
                (NodeEvent::Alarm(_), None) if self.starts[at] == now => self.start(at),
                (NodeEvent::Wake(_), Some(_)) => self.turns.schedule(&mut self.net, at, now),
                _ => (),
            }
        }
    }

    /// The control frames that a node has received, on average.
    pub fn received(&self) -> u64 {
        let all = self.stations.iter().flatten().map(|engine| engine.core().counters().control_received);
        all.sum::<u64>() / self.stations.iter().flatten().count() as u64
    }

    fn turn(&mut self, at: usize) {
        let now = self.net.now();
        let Some(engine) = &mut self.stations[at] else { return };
        let mut frames = engine.inhale(PollScope::Everything, || Time(now), self.net.nic(at));
        while let Some(event) = engine.core_mut().poll_event() {
            if let Event::Member(member, MemberChange::Left(Departure::Silent)) = event {
                let is_it = |other: &usize| name(*other) == member.peer.name;
                self.silent.extend((0..self.starts.len()).find(is_it).map(|other| (at, other)));
            }
        }
        frames += engine.exhale(|| Time(now), self.net.nic(at));
        self.net.start_nic(at);
        self.turns.busy_until(at, now + TURN_TIME + self.cost * frames as Nanos);
        let is_busy = frames > 0 || self.net.nic(at).has_arrivals();
        let due = if is_busy { now } else { engine.sleep_until().0 };
        self.turns.schedule(&mut self.net, at, due);
    }

    /// How many nodes do not see exactly the others that run.
    pub fn wrong_views(&self) -> usize {
        let running: BTreeSet<Name> =
            (0..self.stations.len()).filter(|&at| self.stations[at].is_some()).map(name).collect();
        let is_wrong = |at: &usize| {
            self.stations[*at].as_ref().is_some_and(|engine| {
                if engine.core().members().count() + 1 != running.len() {
                    return true;
                }
                let mut seen: BTreeSet<Name> = engine.core().members().map(|member| member.peer.name).collect();
                seen.insert(name(*at));
                seen != running
            })
        };
        (0..self.stations.len()).filter(is_wrong).count()
    }

    /// The seconds until all views are right, if it takes no more than this.
    pub fn seconds_until_right(&mut self, most: u32) -> Option<f64> {
        for tenths in 1..=10 * most {
            self.run(100 * MS);
            if self.wrong_views() == 0 {
                return Some(f64::from(tenths) / 10.0);
            }
        }
        None
    }
}
