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

use crate::ask::{Answer, Sent};
use crate::command::{Command, NewObject};
use crate::courier::NoAnswer;
use crate::error::CallError;
use crate::mutants::{self, Mutant};
use crate::object::schema_of;
use crate::placement::{Home, Wanted};
use crate::replica::Replica;
use crate::simulated::history::{Called, Event, check};
use crate::simulated::model::{Desk, OneCopy};
use crate::simulated::process::{Asked, Log, Process, Waits};
use crate::slot::Slot;

const STEP: Time = Duration::from_micros(200);
/// Faults happen until then.
const FAULTS: Time = Duration::from_secs(3);
/// All is calm by then.
const END: Time = Duration::from_secs(30);
/// A write that waits for its guard is taken back after this time.
const PATIENCE: Time = Duration::from_millis(200);

/// What is on its way.
#[derive(Clone)]
enum Parcel {
    Message(Message),
    Ask(Asked),
    Answer(Asked, Result<Answer, NoAnswer>),
}

struct World {
    rng: SmallRng,
    now: Time,
    processes: BTreeMap<u64, Process>,
    next_id: u64,
    /// Messages on their way, by their arrival.
    arrivals: BinaryHeap<Reverse<(Time, u64)>>,
    on_their_way: BTreeMap<u64, (u64, u64, Parcel)>,
    /// What processes were asked, and have not answered, by its number.
    asked: BTreeMap<u64, (u64, Asked)>,
    next_ask: u64,
    /// Writes of kept objects, as they ran: the position, the process, the object, the operation and its arguments.
    kept: Vec<(u64, u64, u64, u16, Vec<u8>)>,
    next_message: u64,
    waker: NodeWaker,
    loss: f64,
    delay: Time,
    /// Whether the desk moves, or has a copy everywhere.
    moves: bool,
    /// States travel in parts, and each object is large.
    in_parts: bool,
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
        let moves = rng.random();
        let mut world = World {
            rng,
            now: Duration::from_secs(1),
            processes: BTreeMap::new(),
            next_id: 0,
            arrivals: BinaryHeap::new(),
            on_their_way: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_ask: 0,
            kept: vec![],
            next_message: 0,
            waker,
            loss,
            delay,
            moves,
            in_parts: seed % 2 == 1,
            crashes: 0,
            events: vec![],
            time: 0,
            next_tag: 1,
        };
        (0..members).for_each(|_| world.start());
        world.create(0);
        world
    }

    /// A process creates the desk.
    fn create(&mut self, id: u64) {
        let to = self.place();
        let process = self.processes.get_mut(&id).expect("it is there");
        let state = to_vec(&Desk::default()).expect("it can be written");
        let new = NewObject { name: "desk", of: "Desk", schema: schema_of::<Desk>(), state: &state, to };
        let call = process.courier.begin(Slot::default().into());
        process.courier.send(&mut process.order, Some(call), &Command::Create { call, new });
    }

    /// Somewhere.
    fn place(&mut self) -> Wanted {
        let live: Vec<u64> =
            self.processes.iter().filter(|(_, process)| process.is_live()).map(|(id, _)| *id).collect();
        match self.rng.random_range(0..4) {
            _ if !self.moves => Wanted::Everywhere,
            0 => Wanted::Everywhere,
            1 => Wanted::AsUsed,
            _ => Wanted::At(live[self.rng.random_range(0..live.len())]),
        }
    }

    fn start(&mut self) {
        let (id, waker) = (self.next_id, self.waker.clone());
        self.next_id += 1;
        self.processes.insert(id, Process::new(id, self.now, waker, self.in_parts));
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
            let threads: Vec<&Called> =
                process.threads.iter().flatten().map(|waits| &self.events[waits.event].called).collect();
            let waits = process.order.table.borrow().describe();
            let (is_live, delivered) = (process.is_live(), core.delivered());
            format!("\n    {id}: live {is_live}, view {view:?}, delivered {delivered}, threads {threads:?}, {waits}")
        };
        self.processes.iter().map(of).collect()
    }

    fn arrive(&mut self) {
        while let Some(Reverse((at, key))) = self.arrivals.peek().copied().filter(|Reverse((at, _))| *at <= self.now) {
            self.arrivals.pop();
            let (from, to, parcel) = self.on_their_way.remove(&key).expect("it arrives once");
            let Some(process) = self.processes.get_mut(&to).filter(|process| process.is_alive) else {
                if let Parcel::Ask(asked) = parcel {
                    self.answer(to, asked, Err(NoAnswer::NotRun));
                }
                continue;
            };
            // What processes ask and answer is sent again until it arrives.
            let is_cut = process.cut_until > self.now && !matches!(parcel, Parcel::Message(_));
            if is_cut || process.stopped_until > self.now {
                let at = if is_cut { process.cut_until } else { process.stopped_until }.max(at);
                self.on_their_way.insert(key, (from, to, parcel));
                self.arrivals.push(Reverse((at, key)));
                continue;
            }
            process.order.now = self.now;
            match parcel {
                Parcel::Message(message) => {
                    process.order.core.on_message(self.now, MemberId(from), message);
                    process.order.carry_out();
                }
                Parcel::Ask(asked) => process.order.on_ask(&asked),
                Parcel::Answer(of, answer) => process.order.on_answer(of.caller.call, of.sent.is_none(), answer),
            }
            self.look_at(to);
        }
    }

    /// What a process has run and answered meanwhile.
    fn look_at(&mut self, id: u64) {
        let process = &self.processes[&id];
        let (replies, ran) =
            (process.order.replies.take(), std::mem::take(&mut process.order.table.borrow_mut().objects.ran));
        self.kept.extend(ran.into_iter().map(|(at, object, operation, bytes)| (at, id, object, operation, bytes)));
        for (asked, answer) in replies {
            self.answer(id, asked, Ok(answer));
        }
    }

    /// Each question has one answer.
    fn answer(&mut self, home: u64, asked: Asked, answer: Result<Answer, NoAnswer>) {
        if self.asked.remove(&asked.number).is_some() {
            self.send(home, asked.caller.process, Parcel::Answer(asked, answer));
        }
    }

    fn work(&mut self, id: u64) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.is_up(now)) else { return };
        process.work(now);
        let leaving = std::mem::take(&mut process.order.leaving);
        let (threads, asks) = (process.threads.len(), std::mem::take(&mut process.order.asks));
        for (to, mut asked) in asks {
            self.next_ask += 1;
            asked.number = self.next_ask;
            self.asked.insert(asked.number, (to.0, asked.clone()));
            self.send(id, to.0, Parcel::Ask(asked));
        }
        self.look_at(id);
        for (to, message) in leaving {
            let others: Vec<u64> = self.processes.keys().copied().filter(|other| *other != id).collect();
            let to = to.map(|to| to.0).or_else(|| others.get(self.rng.random_range(0..others.len().max(1))).copied());
            to.into_iter().for_each(|to| self.send(id, to, Parcel::Message(message.clone())));
        }
        (0..threads).for_each(|thread| self.go_on(id, thread));
    }

    fn send(&mut self, from: u64, to: u64, parcel: Parcel) {
        let cut_until = |id| self.processes.get(&id).map_or(Time::ZERO, |process| process.cut_until);
        let is_cut = |id| cut_until(id) > self.now;
        let is_message = matches!(parcel, Parcel::Message(_));
        if is_message && (is_cut(from) != is_cut(to) || self.rng.random_bool(self.loss)) {
            return;
        }
        let begin = if is_message { self.now } else { cut_until(from).max(self.now) };
        let at = begin + self.delay.mul_f64(self.rng.random_range(0.1..1.0));
        self.next_message += 1;
        self.on_their_way.insert(self.next_message, (from, to, parcel));
        self.arrivals.push(Reverse((at, self.next_message)));
    }

    /// A thread sees whether its call has ended, or begins another one.
    fn go_on(&mut self, id: u64, thread: usize) {
        let process = &self.processes[&id];
        let has_desk = process.order.table.borrow().objects.find::<Desk>("desk");
        let Some(Ok((object, desk))) = has_desk else { return };
        if process.threads[thread].is_some() {
            return self.look_for_end(id, thread, object, &desk);
        }
        if self.now > FAULTS + Duration::from_secs(1) || !self.rng.random_ratio(1, 40) {
            return;
        }
        let (event, inbox) = (self.events.len(), process.inbox.clone());
        let (called, sent) = self.choose(object);
        let (begins, number) = (self.time, id as usize * 2 + thread);
        self.time += 1;
        self.events.push(Event { thread: number, called, object, begins, ends: None, outcome: None });
        let is_due = match called {
            Called::Write(_) => desk.uses.write(),
            Called::Read => desk.uses.read(),
            Called::Latest => false,
        };
        if is_due {
            inbox.used(object);
        }
        if let (Called::Read, Some(outcome)) = (called, value(&desk)) {
            let last = &mut self.events[event];
            (last.ends, last.outcome) = (Some(self.time), Some(outcome));
            self.time += 1;
            return;
        }
        let slot = if called == Called::Latest { inbox.catch_up() } else { inbox.call(sent) };
        let process = self.processes.get_mut(&id).expect("it is there");
        process.threads[thread] = Some(Waits { event, slot, since: self.now, is_cancelled: false, is_asked: false });
    }

    /// What a thread calls. A latest read is one that has caught up before.
    fn choose(&mut self, object: u64) -> (Called, Sent) {
        let read = Sent { object, is_read: true, may_wait: false, operation: 0, arguments: vec![] };
        match self.rng.random_range(0_u16..8) {
            0..3 => (Called::Read, read),
            3 => (Called::Latest, read),
            operation => {
                let tag = self.next_tag;
                self.next_tag += 1;
                // Of swap, push and pop, the first one more often.
                let operation = u16::saturating_sub(operation, 5);
                let (may_wait, arguments) = (operation == 2, to_vec(&(tag,)).expect("a number"));
                (Called::Write(tag), Sent { object, is_read: false, may_wait, operation, arguments })
            }
        }
    }

    fn look_for_end(&mut self, id: u64, thread: usize, object: u64, desk: &Replica<Desk>) {
        let process = self.processes.get_mut(&id).expect("it is there");
        let Some(waits) = &mut process.threads[thread] else { return };
        let event = &mut self.events[waits.event];
        let outcome = if event.called == Called::Latest && !waits.is_asked {
            let caught_up = waits.slot.lock().result::<()>();
            event.object = object;
            if caught_up == Some(Ok(())) && value(desk).is_none() {
                // The object is elsewhere: ask there.
                let sent = Sent { object, is_read: true, may_wait: false, operation: 0, arguments: vec![] };
                (waits.slot, waits.is_asked) = (process.inbox.call(sent), true);
                return;
            }
            caught_up.map(|done| done.and_then(|()| value(desk).expect("it is here")))
        } else {
            // A push returns nothing.
            waits.slot.lock().result::<u64>().map(|result| match result {
                Err(CallError::Malformed) => Ok(0),
                result => result,
            })
        };
        let is_late = waits.since + PATIENCE < self.now && matches!(event.called, Called::Write(_));
        if let Some(outcome) = outcome {
            (event.ends, event.outcome) = (Some(self.time), Some(outcome));
            self.time += 1;
            process.threads[thread] = None;
        } else if is_late && !waits.is_cancelled {
            waits.is_cancelled = true;
            process.inbox.cancel(waits.slot.clone());
        }
    }

    fn fault(&mut self) {
        let live: Vec<u64> =
            self.processes.iter().filter(|(_, process)| process.is_live()).map(|(id, _)| *id).collect();
        let id = live[self.rng.random_range(0..live.len())];
        // One that joins counts for no majority yet, and one that has crashed may still be counted.
        let is_whole = self.processes.values().filter(|process| process.is_live()).all(|process| {
            process.is_up(self.now)
                && process.cut_until <= self.now
                && live.iter().all(|id| process.order.core.view().has(MemberId(*id)))
        });
        let until = self.now + Duration::from_millis(self.rng.random_range(50..1000));
        let process = self.processes.get_mut(&id).expect("it lives");
        match self.rng.random_range(0..8) {
            0 if is_whole
                && live.len() >= 4
                && process.order.core.view().members.len() == live.len()
                && self.crashes < 3 =>
            {
                process.is_alive = false;
                self.crashes += 1;
                let of_it = self.asked.values().filter(|(home, _)| *home == id);
                let may_have_run = NoAnswer::Unknown;
                for asked in of_it.map(|(_, asked)| asked.clone()).collect::<Vec<_>>() {
                    self.answer(id, asked, Err(may_have_run));
                }
            }
            1 | 2 => process.stopped_until = until,
            5 | 6 if self.moves => self.move_desk(id),
            3 | 5 | 6 => process.cut_until = until,
            4 if live.len() < 9 => self.start(),
            _ => (),
        }
    }

    /// A process wants the desk elsewhere, or creates it again.
    fn move_desk(&mut self, id: u64) {
        let found = self.processes[&id].order.table.borrow().objects.find::<Desk>("desk");
        let home = |object| self.processes[&id].order.table.borrow().objects.home(object);
        let Some(Ok((object, _))) =
            found.filter(|found| found.as_ref().is_ok_and(|(object, _)| home(*object) != Home::Lost))
        else {
            return self.create(id);
        };
        let to = self.place();
        let process = self.processes.get_mut(&id).expect("it is there");
        let call = process.courier.begin(Slot::default().into());
        process.courier.send(&mut process.order, Some(call), &Command::Place { call, object, to });
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
        let (mut copy, mut kept) = (OneCopy::default(), BTreeMap::<u64, Vec<_>>::new());
        for (position, process, object, operation, arguments) in &self.kept {
            kept.entry(*position).or_default().push((*process, *object, *operation, arguments));
        }
        for (at, (number, (sender, payload))) in (0..).zip(&log) {
            if *number != at {
                return Err(format!("nobody has the command at {at}"));
            }
            copy.carry_out(at, *sender, payload)?;
            for (process, object, operation, arguments) in kept.remove(&(at + 1)).unwrap_or_default() {
                copy.run_kept(process, object, operation, arguments)?;
            }
        }
        check(&self.events, &copy)?;
        let one = to_canonical_vec(&copy.desk);
        for (id, process) in self.processes.iter().filter(|(_, process)| process.is_live()) {
            let found = process.order.table.borrow().objects.find::<Desk>("desk");
            let Some(Ok((object, desk))) = found else { return Err(format!("{id} has no desk")) };
            let home = process.order.table.borrow().objects.home(object);
            if Some(home).filter(|home| *home != Home::Lost) != copy.home {
                return Err(format!("the desk of {id} is at {home:?}, and at {:?} of one copy", copy.home));
            }
            if let Some(seen) = desk.seen()
                && seen.value().map(to_canonical_vec) != Ok(one.clone())
            {
                return Err(format!("the desk of {id} is not that of one copy"));
            }
        }
        Ok(())
    }
}

/// The register here. `None`: another process has it.
fn value(desk: &Replica<Desk>) -> Option<Result<u64, CallError>> {
    Some(desk.seen()?.value().map(|desk| desk.value))
}

/// What has happened in a run: calls that have a result, and states that came in parts.
struct Done {
    calls: usize,
    in_parts: usize,
}

fn run(seed: u64, waker: &NodeWaker) -> Result<Done, String> {
    let mut world = World::new(seed, waker.clone());
    world.run().map_err(|why| format!("seed {seed}: {why}"))?;
    let calls = world.events.iter().filter(|event| event.outcome.is_some_and(|outcome| outcome.is_ok())).count();
    Ok(Done { calls, in_parts: world.processes.values().map(|process| process.order.in_parts).sum() })
}

fn waker() -> NodeWaker {
    Node::open("waker", "sim:1").expect("a node").waker().expect("a descriptor")
}

#[test]
fn threads_see_one_copy() {
    let seeds = am_netdev_sim::check::seeds::asked_for("AM_SIM_SEEDS", 0..50);
    let waker = waker();
    let (mut calls, mut in_parts) = (0, 0);
    for seed in seeds.clone() {
        let done = run(seed, &waker).unwrap_or_else(|why| panic!("{why}"));
        (calls, in_parts) = (calls + done.calls, in_parts + done.in_parts);
    }
    println!("{calls} calls, {in_parts} states in parts");
    assert!(in_parts as u64 * 2 > seeds.end - seeds.start, "hardly a state came in parts");
    assert!(calls as u64 > 50 * (seeds.end - seeds.start), "hardly a thread has done anything");
}

#[test]
fn planted_bugs_are_caught() {
    let waker = waker();
    let catches = |seeds: std::ops::Range<u64>| seeds.into_iter().find_map(|seed| run(seed, &waker).err());
    for mutant in [
        Mutant::NotTriedAgain,
        Mutant::StateMissesAWrite,
        Mutant::RunTwice,
        Mutant::TwoPlacements,
        Mutant::WaitingWriteIsLost,
    ] {
        mutants::plant(Some(mutant));
        let caught = catches(0..300);
        mutants::plant(None);
        println!("{mutant:?}: {}", caught.unwrap_or_else(|| panic!("{mutant:?} was not caught")));
    }
    core_mutants::activate(Some(core_mutants::Mutant::NoMajorityAsked));
    let caught = catches(0..300);
    core_mutants::activate(None);
    println!("NoMajorityAsked: {}", caught.expect("a stale latest read"));
    core_mutants::activate(Some(core_mutants::Mutant::MissedMeanwhile));
    let caught = catches(0..300);
    core_mutants::activate(None);
    println!("MissedMeanwhile: {}", caught.expect("a write that came while a part was made"));
}
