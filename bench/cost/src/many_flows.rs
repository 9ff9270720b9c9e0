//! A node with many open flows, of which it uses 100 in turn: over half of them it asks, over half it is asked. Only what it does
//! itself is counted. All flows but these 100 are with [simulated peers](crate::simulated_peers), one each, and idle. Only with the feature
//! `flows`: a program with more code that polls endpoints is compiled otherwise.
//!
//! ```text
//!   one each 2 µs ───────────▶ round trips                  ──┐ a closed loop, without beacons
//!   one each 0.1 µs ─────────▶ turns that find nothing      ──┤
//!   one each 2 ms, 17.5 s ───▶ round trips, and what time   ──┴▶ less the first, and divided: a trip's share
//!                              brings: keepalives, beacons, timers
//! ```
//!
//! At 2 µs a trip, two keepalive rounds are millions of trips, more than valgrind runs in minutes. So the last trips take a thousand times
//! as long, and a thousandth of what each costs more than one of the first ones is a trip's share of what time brings.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use am_api::{Clock, Connection, Endpoint, Framing, Incarnation, ManualClock, Node, NotOpen};
use am_transport::{Transport, loopback};

use crate::Error;
use crate::cached::Part;
use crate::marks::TOGETHER;
use crate::over::Over;
use crate::simulated_peers::{SimulatedPeers, WithSimulatedPeers};
use crate::trips::{ECHO, PAYLOAD, QUIET_TURNS, TOGETHER_SET_UP, echo};

/// Flows that have messages.
const ACTIVE: usize = 100;
/// All flows: a node has ids for 16,383.
const FLOWS: usize = 16_000;

/// From one turn to the next while connections are opened, and until they are idle.
const SET_UP: Duration = Duration::from_micros(100);
const QUIET: Duration = Duration::from_millis(10);

struct Nodes {
    /// The node with many flows.
    alpha: Endpoint<u64>,
    beta: Endpoint<u64>,
    /// Messages that each has handled.
    handled: [u64; 2],
    idle: Vec<Connection>,
    peers: Rc<RefCell<SimulatedPeers>>,
    hand: ManualClock,
}

impl Nodes {
    fn open(peers: usize) -> Result<Nodes, Error> {
        let (clock, hand) = Clock::manual();
        let [left, right] = loopback::pair();
        let peers = Rc::new(RefCell::new(SimulatedPeers::new(peers, left.address())?));
        let left = WithSimulatedPeers { inner: left.open()?, peers: peers.clone() };
        let open = |name: &str, on: Box<dyn Transport>| -> Result<Endpoint<u64>, Error> {
            let builder = Node::builder(name).framing(Framing::Split).clock(clock.clone(), Incarnation(1));
            echo(&builder.open_on(on)?, "main")
        };
        let (alpha, beta) = (open("alpha", Box::new(left))?, open("beta", Box::new(right.open()?))?);
        Ok(Nodes { alpha, beta, handled: [0; 2], idle: vec![], peers, hand })
    }

    fn turn(&mut self, time: Duration) {
        self.hand.advance(time);
        self.peers.borrow_mut().answer_all();
        self.alpha.poll(&mut self.handled[0]);
        self.beta.poll(&mut self.handled[1]);
    }

    fn turn_until_open(&mut self, all: &[Connection], of: fn(&Nodes) -> &Endpoint<u64>) -> Result<(), Error> {
        while let Some(Err(why)) = all.iter().map(|to| of(self).ready(*to)).find(Result::is_err) {
            if why != NotOpen::Connecting {
                return Err(why.into());
            }
            self.turn(SET_UP);
        }
        Ok(())
    }

    fn connect_idle(&mut self, peers: usize) -> Result<(), Error> {
        for first in (0..peers).step_by(TOGETHER_SET_UP) {
            let mut all = vec![];
            for number in first..peers.min(first + TOGETHER_SET_UP) {
                self.peers.borrow_mut().announce(number);
                all.push(self.alpha.connect(&SimulatedPeers::name(number), "main")?);
            }
            self.turn_until_open(&all, |nodes| &nodes.alpha)?;
            self.idle.extend(all);
        }
        for _ in 0..QUIET_TURNS {
            self.peers.borrow_mut().pass(QUIET);
            self.turn(QUIET);
        }
        Ok(())
    }

    /// Half of them by each node.
    fn connect_active(&mut self) -> Result<[Vec<Connection>; 2], Error> {
        let half = || 0..ACTIVE / 2;
        let ours = half().map(|_| self.alpha.connect("beta", "main")).collect::<Result<Vec<_>, _>>()?;
        self.turn_until_open(&ours, |nodes| &nodes.alpha)?;
        let theirs = half().map(|_| self.beta.connect("alpha", "main")).collect::<Result<Vec<_>, _>>()?;
        self.turn_until_open(&theirs, |nodes| &nodes.beta)?;
        Ok([ours, theirs])
    }

    /// A request of alpha's and its reply, or one of beta's.
    fn trip(&mut self, is_counted: bool, to: Connection, is_ours: bool) -> Result<(), Error> {
        let before = self.handled;
        if is_ours {
            count(is_counted, || {
                let asked = self.alpha.try_request(to, ECHO, &[], &PAYLOAD);
                self.alpha.flush();
                asked
            })?;
        } else {
            self.beta.try_request(to, ECHO, &[], &PAYLOAD)?;
            self.beta.flush();
        }
        for of_alpha in if is_ours { [false, true] } else { [true, false] } {
            if of_alpha {
                count(is_counted, || poll_until(&mut self.alpha, &mut self.handled[0], before[0] + 1));
            } else {
                poll_until(&mut self.beta, &mut self.handled[1], before[1] + 1);
            }
        }
        match self.handled == before.map(|handled| handled + 1) {
            true => Ok(()),
            false => Err("not all that was sent was handled, once".into()),
        }
    }

    fn idle_turn(&mut self, is_counted: bool) {
        self.beta.poll(&mut self.handled[1]);
        count(is_counted, || self.alpha.poll(&mut self.handled[0]));
    }
}

fn poll_until(endpoint: &mut Endpoint<u64>, handled: &mut u64, until: u64) {
    for _ in 0..TOGETHER {
        endpoint.poll(handled);
        if *handled >= until {
            break;
        }
    }
}

/// Valgrind counts while this runs.
#[inline(never)]
fn counted<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn count<R>(is_counted: bool, work: impl FnOnce() -> R) -> R {
    if is_counted { counted(work) } else { work() }
}

pub(crate) fn run(over: Over, part: Part) -> Result<(), Error> {
    let idle = if over == Over::Flows16000 { FLOWS - ACTIVE } else { 0 };
    let mut nodes = Nodes::open(idle)?;
    nodes.connect_idle(idle)?;
    let [ours, theirs] = nodes.connect_active()?;
    for number in 0..2 * part.count() {
        nodes.hand.advance(part.interval());
        nodes.peers.borrow_mut().answer_all();
        if part == Part::Time {
            nodes.peers.borrow_mut().pass(part.interval());
        }
        let (is_counted, is_ours) = (number >= part.count(), number % 2 == 0);
        let flows = if is_ours { &ours } else { &theirs };
        match part {
            Part::Turns => nodes.idle_turn(is_counted),
            _ => nodes.trip(is_counted, flows[number / 2 % flows.len()], is_ours)?,
        }
    }
    nodes.idle.iter().try_for_each(|to| nodes.alpha.ready(*to))?;
    // To close them takes longer than all trips.
    std::mem::forget(nodes);
    Ok(())
}
