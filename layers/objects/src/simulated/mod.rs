//! Spaces on a simulated network, in virtual time: processes that join, crash and stop, messages that are lost and delayed, networks that part; threads that write, read, and wait. Each
//! run follows from its seed, and its history is held against one copy of the objects.
//!
//! `AM_SIM_SEEDS=FROM..TO` runs those.

mod history;
mod model;
mod process;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use am_api::{Node, NodeWaker};
use am_ordered::MemberId;
use am_ordered_core::mutants as core_mutants;
use am_ordered_core::{Message, Time};
use am_rpc::codec::{to_canonical_vec, to_vec};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::command::Command;
use crate::error::CallError;
use crate::mutants::{self, Mutant};
use crate::object::schema_of;
use crate::simulated::history::{Called, Event, check};
use crate::simulated::model::{Desk, OneCopy};
use crate::simulated::process::{Log, Process, Waits};
use crate::slot::Slot;

const STEP: Time = Duration::from_micros(200);
/// Faults happen until then.
const FAULTS: Time = Duration::from_secs(3);
/// All is calm by then.
const END: Time = Duration::from_secs(30);
/// A write that waits for its guard is taken back after this time.
const PATIENCE: Time = Duration::from_millis(200);

struct World {
    rng: SmallRng,
    now: Time,
    processes: BTreeMap<u64, Process>,
    next_id: u64,
    /// Messages on their way, by their arrival.
    arrivals: BinaryHeap<Reverse<(Time, u64)>>,
    on_their_way: BTreeMap<u64, (u64, u64, Message)>,
    next_message: u64,
    waker: NodeWaker,
    loss: f64,
    delay: Time,
    crashes: usize,
    events: Vec<Event>,
    /// Places in the history.
    time: usize,
    next_tag: u64,
}

impl World {
    fn new(seed: u64, waker: NodeWaker) -> World {
        let mut rng = SmallRng::seed_from_u64(seed);
        let loss = if rng.random() { rng.random_range(0.0..0.2) } else { 0.0 };
        let delay = Duration::from_micros(rng.random_range(100..3000));
        let members = rng.random_range(1..=8);
        let mut world = World {
            rng,
            now: Duration::from_secs(1),
            processes: BTreeMap::new(),
            next_id: 0,
            arrivals: BinaryHeap::new(),
            on_their_way: BTreeMap::new(),
            next_message: 0,
            waker,
            loss,
            delay,
            crashes: 0,
            events: vec![],
            time: 0,
            next_tag: 1,
        };
        (0..members).for_each(|_| world.start());
        let founder = world.processes.get_mut(&0).expect("the first");
        let state = to_vec(&Desk::default()).expect("it can be written");
        let (name, of, schema) = ("desk", "Desk", schema_of::<Desk>());
        let create = |call| Command::Create { call, name, of, schema, state: &state };
        founder.courier.send(&mut founder.order, Some(Slot::default().into()), create);
        world
    }

    fn start(&mut self) {
        let (id, waker) = (self.next_id, self.waker.clone());
        self.next_id += 1;
        self.processes.insert(id, Process::new(id, self.now, waker));
    }

    fn run(&mut self) -> Result<(), String> {
        while self.now < END {
            self.now += STEP;
            self.arrive();
            let ids: Vec<u64> = self.processes.keys().copied().collect();
            for id in ids {
                self.work(id);
            }
            let is_fault = self.now < FAULTS && self.rng.random_ratio(1, 400);
            if is_fault {
                self.fault();
            }
            if self.now > FAULTS + Duration::from_secs(2) && self.is_calm() {
                return self.check();
            }
        }
        Err(format!("it does not go on: {}", self.describe()))
    }

    fn describe(&self) -> String {
        let of = |(id, process): (&u64, &Process)| {
            let core = &process.order.core;
            let view: Vec<u64> = core.view().ids().map(|id| id.0).collect();
            format!("\n    {id}: live {}, view {view:?}, delivered {}", process.is_live(), core.delivered())
        };
        self.processes.iter().map(of).collect()
    }

    fn arrive(&mut self) {
        while let Some(Reverse((at, key))) = self.arrivals.peek().copied().filter(|Reverse((at, _))| *at <= self.now) {
            self.arrivals.pop();
            let (from, to, message) = self.on_their_way.remove(&key).expect("it arrives once");
            let Some(process) = self.processes.get_mut(&to).filter(|process| process.is_alive) else { continue };
            if process.stopped_until > self.now {
                let (at, key) = (process.stopped_until.max(at), key);
                self.on_their_way.insert(key, (from, to, message));
                self.arrivals.push(Reverse((at, key)));
                continue;
            }
            process.order.core.on_message(self.now, MemberId(from), message);
            process.order.now = self.now;
            process.order.carry_out();
        }
    }

    fn work(&mut self, id: u64) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.is_up(now)) else { return };
        process.work(now);
        let leaving = std::mem::take(&mut process.order.leaving);
        let threads = process.threads.len();
        for (to, message) in leaving {
            let others: Vec<u64> = self.processes.keys().copied().filter(|other| *other != id).collect();
            let to = to.map(|to| to.0).or_else(|| others.get(self.rng.random_range(0..others.len().max(1))).copied());
            to.into_iter().for_each(|to| self.send(id, to, message.clone()));
        }
        (0..threads).for_each(|thread| self.go_on(id, thread));
    }

    fn send(&mut self, from: u64, to: u64, message: Message) {
        let is_cut = |id| self.processes.get(&id).is_some_and(|process| process.cut_until > self.now);
        if is_cut(from) != is_cut(to) || self.rng.random_bool(self.loss) {
            return;
        }
        let at = self.now + self.delay.mul_f64(self.rng.random_range(0.1..1.0));
        self.next_message += 1;
        self.on_their_way.insert(self.next_message, (from, to, message));
        self.arrivals.push(Reverse((at, self.next_message)));
    }

    /// A thread sees whether its call has ended, or begins another one.
    fn go_on(&mut self, id: u64, thread: usize) {
        let process = self.processes.get_mut(&id).expect("it is there");
        let has_desk = process.order.table.find::<Desk>("desk");
        let Some(Ok((object, desk))) = has_desk else { return };
        if let Some(waits) = &mut process.threads[thread] {
            let event = &mut self.events[waits.event];
            let outcome = match event.called {
                Called::Latest => {
                    waits.slot.lock().result::<()>().map(|done| done.and_then(|()| desk.read(|desk| desk.value)))
                }
                // A push returns nothing.
                _ => waits.slot.lock().result::<u64>().map(|result| match result {
                    Err(CallError::Malformed) => Ok(0),
                    result => result,
                }),
            };
            if let Some(outcome) = outcome {
                (event.ends, event.outcome) = (Some(self.time), Some(outcome));
                self.time += 1;
                process.threads[thread] = None;
            } else if !waits.is_cancelled && waits.since + PATIENCE < self.now && event.called != Called::Latest {
                waits.is_cancelled = true;
                process.inbox.cancel(waits.slot.clone());
            }
            return;
        }
        if self.now > FAULTS + Duration::from_secs(1) || !self.rng.random_ratio(1, 40) {
            return;
        }
        let (tag, event, inbox) = (self.next_tag, self.events.len(), process.inbox.clone());
        let mut begins = |called| {
            let (begins, thread) = (self.time, id as usize * 2 + thread);
            self.time += 1;
            self.events.push(Event { thread, called, begins, ends: None, outcome: None });
        };
        let slot = match self.rng.random_range(0_u16..8) {
            0..3 => {
                begins(Called::Read);
                let last = &mut self.events[event];
                (last.ends, last.outcome) = (Some(self.time), Some(desk.read(|desk| desk.value)));
                self.time += 1;
                return;
            }
            3 => {
                begins(Called::Latest);
                inbox.catch_up()
            }
            operation => {
                begins(Called::Write(tag));
                self.next_tag += 1;
                // Of swap, push and pop, the first one more often.
                let operation = u16::saturating_sub(operation, 5);
                inbox.write(object, operation, to_vec(&(tag,)).expect("a number"))
            }
        };
        let process = self.processes.get_mut(&id).expect("it is there");
        process.threads[thread] = Some(Waits { event, slot, since: self.now, is_cancelled: false });
    }

    fn fault(&mut self) {
        let live: Vec<u64> =
            self.processes.iter().filter(|(_, process)| process.is_live()).map(|(id, _)| *id).collect();
        let id = live[self.rng.random_range(0..live.len())];
        let is_whole = self.processes.values().filter(|process| process.is_live()).all(|process| {
            process.is_up(self.now)
                && process.cut_until <= self.now
                && process.order.core.view().members.len() >= live.len()
        });
        let until = self.now + Duration::from_millis(self.rng.random_range(50..1000));
        let process = self.processes.get_mut(&id).expect("it lives");
        match self.rng.random_range(0..6) {
            0 if is_whole
                && live.len() >= 4
                && process.order.core.view().members.len() == live.len()
                && self.crashes < 3 =>
            {
                process.is_alive = false;
                self.crashes += 1;
            }
            1 | 2 => process.stopped_until = until,
            3 => process.cut_until = until,
            4 if live.len() < 9 => self.start(),
            _ => (),
        }
    }

    fn is_calm(&self) -> bool {
        let live = || self.processes.values().filter(|process| process.is_live());
        let Some(first) = live().next() else { return true };
        let count = live().count();
        live().all(|process| {
            let core = &process.order.core;
            core.is_primary()
                && core.view() == first.order.core.view()
                && core.view().members.len() == count
                && core.delivered() == first.order.core.delivered()
                && core.waiting() == 0
                && process.threads.iter().all(Option::is_none)
        })
    }

    fn check(&self) -> Result<(), String> {
        let mut log = Log::new();
        for (id, process) in &self.processes {
            for (number, command) in &process.order.log {
                let first = log.entry(*number).or_insert_with(|| command.clone());
                if first != command {
                    return Err(format!("{id} has another command at {number} than others"));
                }
            }
        }
        let mut copy = OneCopy::default();
        for (at, (number, (sender, payload))) in (0..).zip(&log) {
            if *number != at {
                return Err(format!("nobody has the command at {at}"));
            }
            copy.carry_out(*sender, payload)?;
        }
        check(&self.events, &copy)?;
        let one = to_canonical_vec(&copy.desk);
        for (id, process) in self.processes.iter().filter(|(_, process)| process.is_live()) {
            let found = process.order.table.find::<Desk>("desk");
            let Some(Ok((_, desk))) = found else { return Err(format!("{id} has no desk")) };
            if desk.read(to_canonical_vec) != Ok(one.clone()) {
                return Err(format!("the desk of {id} is not that of one copy"));
            }
        }
        Ok(())
    }
}

fn run(seed: u64, waker: &NodeWaker) -> Result<usize, String> {
    let mut world = World::new(seed, waker.clone());
    world.run().map_err(|why| format!("seed {seed}: {why}"))?;
    Ok(world.events.iter().filter(|event| event.outcome.is_some_and(|outcome| outcome.is_ok())).count())
}

fn waker() -> NodeWaker {
    Node::open("waker", "sim:1").expect("a node").waker().expect("a descriptor")
}

#[test]
fn threads_see_one_copy() {
    let seeds = am_netdev_sim::check::seeds::asked_for("AM_SIM_SEEDS", 0..50);
    let waker = waker();
    let mut calls = 0;
    for seed in seeds.clone() {
        calls += run(seed, &waker).unwrap_or_else(|why| panic!("{why}"));
    }
    println!("{calls} calls");
    assert!(calls as u64 > 50 * (seeds.end - seeds.start), "hardly a thread has done anything");
}

#[test]
fn planted_bugs_are_caught() {
    let waker = waker();
    let catches = |seeds: std::ops::Range<u64>| seeds.into_iter().find_map(|seed| run(seed, &waker).err());
    for mutant in [Mutant::NotTriedAgain, Mutant::StateMissesAWrite, Mutant::RunTwice] {
        mutants::plant(Some(mutant));
        let caught = catches(0..300);
        mutants::plant(None);
        println!("{mutant:?}: {}", caught.unwrap_or_else(|| panic!("{mutant:?} was not caught")));
    }
    core_mutants::activate(Some(core_mutants::Mutant::NoMajorityAsked));
    let caught = catches(0..300);
    core_mutants::activate(None);
    println!("NoMajorityAsked: {}", caught.expect("a stale latest read"));
}
