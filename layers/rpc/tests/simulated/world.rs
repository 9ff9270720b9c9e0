//! A run: the network, its nodes, and the checks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use am_api::{Builder, Clock, Incarnation, ManualClock, Node};
use am_netdev_sim::check::frames;
use am_netdev_sim::check::turns::Turns;
use am_netdev_sim::{Disconnector, MS, Nanos, Net, NetOptions, NicHandle, NodeEvent, US};
use am_ring::Pool;
use am_rpc::Rpc;
use am_transport::Transport;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::acts::{Act, Common, name};
use crate::history::{History, Run, Seen};
use crate::service::{Served, TrialServer};

/// A turn takes so long.
const TURN: Nanos = 2 * US;
/// Who finds nothing to do looks again after so long at the latest.
const NAP: Nanos = 500 * US;
/// After everything is drained, for so long nothing must happen to it.
const CALM: Nanos = 20 * MS;

/// What the nodes are to do, and how they are set up: the same for all of a run.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    seed: u64,
    /// Calls that each run of a node begins, at most.
    calls: u32,
    /// The longest pause between two bursts.
    pause: Nanos,
    longest: usize,
    patience: Nanos,
    beacon: Nanos,
    window: u16,
    receive_frames: usize,
    send_frames: usize,
    /// Each of these happens to a run of a node with this probability.
    leave: f64,
    reopen: f64,
    shut_down: f64,
}

impl Work {
    pub(crate) fn from_seed(seed: u64) -> Work {
        let mut random = SmallRng::seed_from_u64(seed ^ 0x72_70_63);
        let mut maybe = |most: f64| if random.random_bool(0.5) { most * random.random::<f64>() } else { 0.0 };
        let (leave, reopen, shut_down) = (maybe(0.5), maybe(0.5), maybe(0.5));
        let most_frames = if random.random_bool(0.5) { 12 } else { 128 };
        Work {
            seed,
            calls: random.random_range(5..60),
            pause: random.random_range(10 * US..2 * MS),
            longest: random.random_range(2000..60_000),
            patience: random.random_range(20..150) * MS,
            beacon: random.random_range(20..200) * MS,
            window: random.random_range(1..64),
            receive_frames: random.random_range(4..64),
            send_frames: random.random_range(3..most_frames),
            leave,
            reopen,
            shut_down,
        }
    }

    fn builder(&self, node: u16) -> Builder {
        Node::builder(&name(node))
            .window(self.window)
            .patience(Duration::from_nanos(self.patience))
            .beacon(Duration::from_nanos(self.beacon))
            .keepalive(Duration::from_nanos(4 * self.beacon))
            .receive_frames(self.receive_frames)
            .send_frames(self.send_frames)
            .max_message(self.longest)
    }
}

/// A run of a node.
struct Side {
    // Dropped in this order.
    rpc: Rpc,
    node: Node,
    run: Run,
    cut: Disconnector,
    pool: Pool,
    random: SmallRng,
    left: u32,
    next: Nanos,
    /// When the server begins no more calls, when the endpoint is opened again, and when the node leaves.
    shut_down: Nanos,
    reopen: Nanos,
    leave: Nanos,
    idle: u32,
    turn: Nanos,
}

pub(crate) struct World {
    net: Rc<RefCell<Net>>,
    clock: Clock,
    hand: ManualClock,
    common: Rc<Common>,
    work: Work,
    sides: Vec<Option<Side>>,
    /// When a node that has left comes back.
    back: Vec<Option<Nanos>>,
    runs: Vec<u16>,
    turns: Turns,
    /// Nodes that still call each other once the faults are over.
    encores: Rc<Cell<usize>>,
    /// By then everything has its outcome.
    due: Nanos,
}

impl World {
    pub(crate) fn new(options: NetOptions, work: Work) -> World {
        let nodes = options.nodes;
        let (clock, hand) = Clock::manual();
        let history = History::new(options.last_fault());
        let due = history.quiet_from + World::within(&work);
        let net = Net::new(options);
        let mut world = World {
            clock,
            hand,
            common: Rc::new(Common { history, ..Common::default() }),
            work,
            sides: (0..nodes).map(|_| None).collect(),
            back: vec![None; nodes],
            runs: vec![0; nodes],
            turns: Turns::of(&net),
            net: Rc::new(RefCell::new(net)),
            encores: Rc::default(),
            due,
        };
        (0..nodes).for_each(|at| world.start(at));
        world
    }

    fn within(work: &Work) -> Nanos {
        3 * work.patience + 4 * work.beacon + 2000 * MS
    }

    fn now(&self) -> Nanos {
        self.net.borrow().now()
    }

    fn set_time(&self) {
        let now = self.now();
        self.hand.advance(Duration::from_nanos(now - self.common.history.now.replace(now)));
        self.common.timers.set(now);
    }

    fn next_run(&mut self, at: usize) -> Run {
        self.runs[at] += 1;
        Run { node: at as u16, number: self.runs[at] }
    }

    fn start(&mut self, at: usize) {
        self.set_time();
        self.back[at] = None;
        let run = self.next_run(at);
        let plug = NicHandle::new(&self.net, at);
        let (cut, pool) = (plug.disconnector(), plug.caps().pool.clone());
        let incarnation = Incarnation(self.work.seed << 16 | u64::from(run.number));
        let builder = self.work.builder(run.node).clock(self.clock.clone(), incarnation);
        let node = builder.open_on(Box::new(plug)).expect("frames enough");
        let rpc = self.open(&node, run);
        let seed = self.work.seed ^ u64::from(run.node) << 32 ^ u64::from(run.number) << 48;
        let mut random = SmallRng::seed_from_u64(seed);
        let (now, until) = (self.now(), self.common.history.quiet_from);
        let mut at_some_time = |chance: f64| match random.random_bool(chance) && now < until {
            true => random.random_range(now..until),
            false => Nanos::MAX,
        };
        let (shut_down, reopen) = (at_some_time(self.work.shut_down), at_some_time(self.work.reopen));
        let leave = at_some_time(self.work.leave);
        self.sides[at] = Some(Side {
            rpc,
            node,
            run,
            cut,
            pool,
            random,
            left: self.work.calls,
            next: now,
            shut_down,
            reopen,
            leave,
            idle: 0,
            turn: now,
        });
        self.net.borrow_mut().start_nic(at);
        self.turns.start(&mut self.net.borrow_mut(), at);
    }

    /// The endpoint, which serves.
    fn open(&self, node: &Node, run: Run) -> Rpc {
        let rpc = Rpc::open(node).expect("the name is free");
        let served = Served { common: self.common.clone(), run, local: rpc.local() };
        rpc.serve(TrialServer::new(served)).expect("the only service");
        rpc
    }

    /// Until everything is drained; then each node has to call another one.
    pub(crate) fn run(&mut self) -> Result<Seen, String> {
        let (mut drained, mut has_encored) = (None, false);
        loop {
            let Some((at, event)) = self.net.borrow_mut().step_once() else { break };
            let Some(event) = event else { continue };
            self.on(at, event)?;
            self.common.history.take()?;
            let now = self.now();
            if now < self.common.history.quiet_from {
                continue;
            }
            if self.undecided() > 0 {
                drained = None;
                if now > self.due {
                    return Err(self.what_is_left());
                }
            } else if now > *drained.get_or_insert(now) + CALM {
                if std::mem::replace(&mut has_encored, true) {
                    break;
                }
                self.due = now + World::within(&self.work);
                self.encore();
            }
        }
        self.finish()
    }

    fn undecided(&self) -> usize {
        let sides = self.sides.iter().flatten();
        self.common.history.open() + self.encores.get() + sides.map(|side| side.rpc.under_way()).sum::<usize>()
    }

    fn what_is_left(&self) -> String {
        let sides: Vec<_> = self.sides.iter().flatten().map(|side| format!("{:?} {:?}", side.run, side.rpc)).collect();
        let (encores, first) = (self.encores.get(), self.common.history.first_open());
        format!("left long after the last fault: {encores} nodes that call, {first}; {}", sides.join(", "))
    }

    fn on(&mut self, at: usize, event: NodeEvent) -> Result<(), String> {
        match event {
            NodeEvent::Alarm(_) if !self.turns.begin(&self.net.borrow(), at) => Ok(()),
            NodeEvent::Alarm(_) => self.turn(at),
            NodeEvent::Wake(_) => {
                self.schedule(at, self.now());
                Ok(())
            }
            NodeEvent::Stall(_, until) => {
                self.common.history.saw("stalled");
                self.turns.stall(&mut self.net.borrow_mut(), at, until);
                Ok(())
            }
            NodeEvent::Restart(_) => {
                self.common.history.saw("restarted");
                self.start(at);
                Ok(())
            }
            NodeEvent::Death(_) => {
                self.common.history.saw("died");
                self.turns.cancel(at);
                self.back[at] = None;
                self.set_time();
                let Some(side) = self.sides[at].take() else { return Ok(()) };
                side.cut.disconnect();
                self.end(side)
            }
        }
    }

    fn schedule(&mut self, at: usize, when: Nanos) {
        self.turns.schedule(&mut self.net.borrow_mut(), at, when);
    }

    /// The run is over. If it was disconnected, its NIC is gone, and all frames are back.
    fn end(&self, side: Side) -> Result<(), String> {
        let Side { rpc, node, run, pool, .. } = side;
        drop((rpc, node));
        self.common.history.run_ended(run);
        let (free, all) = (pool.available(), pool.layout().frames);
        if free == all { Ok(()) } else { Err(format!("{free} of {all} frames came back from {run:?}")) }
    }

    fn turn(&mut self, at: usize) -> Result<(), String> {
        self.set_time();
        let now = self.now();
        if self.sides[at].is_none() {
            match self.back[at] {
                Some(back) if back <= now => self.start(at),
                Some(back) => self.schedule(at, back),
                None => (),
            }
            return Ok(());
        }
        self.change(at);
        let Some(side) = &mut self.sides[at] else { return Ok(()) };
        let before = std::mem::replace(&mut side.turn, now);
        let handled = side.rpc.poll();
        self.common.history.check_deadlines(side.run, before);
        let has_begun = self.begin(at);
        let Some(side) = &mut self.sides[at] else { return Ok(()) };
        side.idle = if handled > 0 || has_begun { 0 } else { side.idle + 1 };
        let due = now + (TURN << side.idle.min(10)).min(NAP);
        self.net.borrow_mut().start_nic(at);
        self.schedule(at, due);
        Ok(())
    }

    /// What a node does beside its calls: shut down, open its endpoint again, leave.
    fn change(&mut self, at: usize) {
        let (now, until) = (self.now(), self.common.history.quiet_from);
        let history = &self.common.history;
        let Some(mut side) = self.sides[at].take() else { return };
        if now >= side.shut_down {
            history.saw("shut down");
            side.shut_down = Nanos::MAX;
            side.rpc.shut_down(Duration::ZERO);
        }
        if now >= side.leave && now < until {
            history.saw("left");
            self.back[at] = Some(side.random.random_range(now..until));
            let Side { rpc, node, run, .. } = side;
            drop((rpc, node));
            history.run_ended(run);
            self.net.borrow_mut().start_nic(at);
            self.turns.start(&mut self.net.borrow_mut(), at);
            return;
        }
        if now >= side.reopen {
            history.saw("endpoint closed and opened again");
            side.reopen = Nanos::MAX;
            side = self.reopened(side, at);
        }
        self.sides[at] = Some(side);
    }

    fn reopened(&mut self, side: Side, at: usize) -> Side {
        let Side { rpc, node, run, .. } = side;
        drop(rpc);
        self.common.history.run_ended(run);
        let run = self.next_run(at);
        Side { rpc: self.open(&node, run), node, run, ..side }
    }

    /// Begin calls. Returns whether there was one.
    fn begin(&mut self, at: usize) -> bool {
        let (now, nodes) = (self.now(), self.sides.len() as u16);
        let Some(side) = &mut self.sides[at] else { return false };
        if now >= self.common.history.quiet_from || side.left == 0 || now < side.next {
            return false;
        }
        side.next = now + side.random.random_range(1..=self.work.pause);
        for _ in 0..side.random.random_range(1..8).min(side.left) {
            side.left -= 1;
            let to = (side.run.node + side.random.random_range(1..nodes)) % nodes;
            let act = Act::draw(&mut side.random, nodes, self.work.longest);
            let peer = side.rpc.peer(&name(to)).expect("a name");
            let run = act.run(self.common.clone(), side.run, (to, peer));
            side.rpc.spawn(async move { _ = run.await });
        }
        true
    }

    /// Each node calls another one by every method, until all went as they do without faults.
    fn encore(&mut self) {
        let alive: Vec<usize> = (0..self.sides.len()).filter(|at| self.sides[*at].is_some()).collect();
        let step = 1 + self.work.seed as usize % alive.len().saturating_sub(1).max(1);
        for (index, at) in alive.iter().copied().enumerate() {
            let Some(side) = self.sides[at].take() else { continue };
            // One that was shut down begins no calls.
            let side = self.reopened(side, at);
            let to = alive[(index + step) % alive.len()];
            if to != at {
                self.call_all(&side, to as u16);
            }
            self.sides[at] = Some(side);
            self.schedule(at, self.now());
        }
    }

    fn call_all(&self, side: &Side, to: u16) {
        let (common, local, run, longest) = (self.common.clone(), side.rpc.local(), side.run, self.work.longest);
        let encores = self.encores.clone();
        encores.set(encores.get() + 1);
        side.rpc.spawn(async move {
            for act in Act::all(longest) {
                let peer = || (to, local.peer(&name(to)).expect("a name"));
                while !act.clone().run(common.clone(), run, peer()).await {
                    common.timers.sleep(20 * MS).await;
                }
            }
            encores.set(encores.get() - 1);
        });
    }

    /// Nothing is left; then everybody goes, and all frames are back or the NIC's.
    fn finish(&mut self) -> Result<Seen, String> {
        if self.undecided() > 0 {
            return Err(self.what_is_left());
        }
        for at in 0..self.sides.len() {
            let Some(side) = self.sides[at].take() else { continue };
            let text = format!("{:?}", side.rpc);
            // A peer by its name, and one that has connected, for each node.
            let most = 2 * self.runs.len();
            let is_empty = |peers| {
                format!("Rpc {{ calls: 0, running: 0, tasks: 0, streams: 0, messages: 0, peers: {peers}, .. }}")
            };
            if !(0..=most).any(|peers| text == is_empty(peers)) {
                return Err(format!("left in the end: {text}"));
            }
            side.cut.disconnect();
            let Side { rpc, node, .. } = side;
            drop((rpc, node));
            frames::check_quiet(self.net.borrow_mut().nic(at)).map_err(|violation| violation.to_string())?;
        }
        self.common.history.take()?;
        Ok(self.common.history.seen())
    }
}
