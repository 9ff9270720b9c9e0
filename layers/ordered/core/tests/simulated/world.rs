//! The processes of a run, the network between them, and the faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use am_ordered_core::{
    Core, Delivery, Ended, Epoch, Level, Member, MemberId, Message, Number, Output, Place, Settings, StampTable, Time,
    View,
};
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::checks::{self, Key};
use crate::network::{self, Arrived, Verdict};
use crate::parts::{AllDue, Columns, Coming, Due};
use crate::plan::{Plan, pick};

/// What happened, and how often.
pub(crate) type Seen = BTreeMap<&'static str, u64>;

/// All of these happen in some run.
pub(crate) const SEEN: &[&str] = &[
    "crash",
    "stop",
    "cut",
    "cut in one direction",
    "join",
    "leave",
    "left",
    "put out: silent",
    "put out: not in view",
    "diverged",
    "delivered",
    "safe",
    "view",
    "returned",
    "state taken",
    "sequencer replaced",
    "repair lost",
    "caught up",
    "state in parts",
    "messages with a state",
    "state forgotten",
    "stamped by the network",
    "not stamped by the network",
];

/// A process, dead or alive.
pub(crate) struct Process {
    pub(crate) core: Core,
    pub(crate) is_alive: bool,
    pub(crate) leaves: bool,
    pub(crate) ended: Option<Ended>,
    /// What it has delivered, from its first number on.
    pub(crate) delivered: Vec<checks::Delivered>,
    /// What its state was and all that it has delivered have made of them.
    pub(crate) columns: Columns,
    /// What has arrived of another one's, and the parts that this one gives.
    coming: Coming,
    due: AllDue,
    pub(crate) first: Option<Number>,
    /// What it had delivered before it diverged, each time, with its first number.
    pub(crate) past: Vec<(Number, Vec<checks::Delivered>)>,
    pub(crate) not_delivered: BTreeSet<Key>,
    /// What it wants to catch up with, by the number of the question.
    catches_up: BTreeMap<u64, Reached>,
    keys: BTreeMap<u64, Key>,
    left_to_send: u64,
    send_at: Time,
    stopped_until: Option<Time>,
    inbox: Vec<(MemberId, Arrived)>,
    pub(crate) table: StampTable,
    tick_at: Time,
}

/// How far the others were when a member asked: for each epoch the end of what its members had delivered, and the end of what any had delivered as `Safe`.
struct Reached {
    level: Level,
    agreed: BTreeMap<Epoch, Number>,
    safe: Number,
}

#[derive(Debug)]
enum Event {
    Arrive { from: MemberId, to: MemberId, arrived: Arrived },
    Tick(MemberId),
    Resume(MemberId),
    Fault,
    Heal(usize),
}

pub(crate) struct World {
    plan: Plan,
    rng: SmallRng,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    by_order: BTreeMap<u64, Event>,
    next_event: u64,
    pub(crate) processes: BTreeMap<MemberId, Process>,
    next_id: u64,
    /// Links that carry nothing, by the fault that cut them.
    cuts: BTreeMap<usize, BTreeSet<(MemberId, MemberId)>>,
    next_cut: usize,
    last_arrival: BTreeMap<(MemberId, MemberId), Time>,
    tells: bool,
    violation: Option<String>,
    pub(crate) seen: Seen,
}

impl World {
    pub(crate) fn new(plan: Plan, tells: bool) -> World {
        let rng = SmallRng::seed_from_u64(plan.seed ^ 0x5eed);
        let mut world = World {
            plan,
            rng,
            now: Duration::from_secs(1),
            events: BinaryHeap::new(),
            by_order: BTreeMap::new(),
            next_event: 0,
            processes: BTreeMap::new(),
            next_id: 0,
            cuts: BTreeMap::new(),
            next_cut: 0,
            last_arrival: BTreeMap::new(),
            tells,
            violation: None,
            seen: Seen::new(),
        };
        if tells {
            println!("{:#?}", world.plan);
        }
        (0..world.plan.members).for_each(|_| world.start());
        world.at(world.now + Duration::from_millis(300), Event::Fault);
        world
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            println!("{:10.6} {}", self.now.as_secs_f64(), what());
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.next_event += 1;
        self.by_order.insert(self.next_event, event);
        self.events.push(Reverse((time, self.next_event)));
    }

    /// Start a process: the first one founds the group.
    fn start(&mut self) {
        let id = MemberId(self.next_id);
        self.next_id += 1;
        let link = if self.plan.stamps { network::link(id) } else { 0 };
        let me = Member { id, name: format!("m{}", id.0), link };
        let patience = Duration::from_millis(800);
        let (capacity, tie_break) = (self.plan.capacity, self.plan.tie_break.then(|| "m0".to_owned()));
        let settings = Settings {
            capacity,
            kept: 4096,
            patience,
            slow: Some(patience),
            tie_break,
            apart: 64,
            ..Settings::default()
        };
        let mut core = match id.0 {
            0 => Core::found(me, settings, self.now),
            _ => Core::join(me, settings, self.now),
        };
        let table = network::table();
        core.stamp_in(table.clone());
        let process = Process {
            core,
            is_alive: true,
            leaves: false,
            ended: None,
            delivered: vec![],
            columns: Columns::default(),
            coming: Coming::default(),
            due: AllDue::new(),
            first: (id.0 == 0).then_some(0),
            past: vec![],
            not_delivered: BTreeSet::new(),
            catches_up: BTreeMap::new(),
            keys: BTreeMap::new(),
            left_to_send: self.plan.messages,
            send_at: self.now,
            stopped_until: None,
            inbox: vec![],
            table,
            tick_at: Time::ZERO,
        };
        self.processes.insert(id, process);
        self.work(id);
    }

    pub(crate) fn run(&mut self) -> Result<Seen, String> {
        let end = self.plan.faults_end + self.plan.quiet + Duration::from_secs(1);
        while let Some(Reverse((time, order))) = self.events.pop() {
            if time > end {
                break;
            }
            self.now = self.now.max(time);
            match self.by_order.remove(&order).expect("each event happens once") {
                Event::Arrive { from, to, arrived } => self.arrive(from, to, arrived),
                Event::Tick(id) if self.processes[&id].tick_at == time => self.work(id),
                Event::Tick(_) => (),
                Event::Resume(id) => self.resume(id),
                Event::Fault => self.fault(),
                Event::Heal(cut) => _ = self.cuts.remove(&cut),
            }
            checks::always(self)?;
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if order % 512 == 0 && self.now > self.plan.faults_end + Duration::from_secs(3) && checks::is_over(self) {
                break;
            }
        }
        checks::at_the_end(self)?;
        Ok(std::mem::take(&mut self.seen))
    }

    fn arrive(&mut self, from: MemberId, to: MemberId, arrived: Arrived) {
        let Some(process) = self.processes.get_mut(&to).filter(|process| process.is_alive) else { return };
        if let Arrived::Message(message) = &arrived
            && self.plan.stamps
        {
            match network::program(&process.table, process.core.view().group, self.now, from, message) {
                Verdict::ForTheProcess => (),
                Verdict::Dropped => return self.saw("not stamped by the network"),
                Verdict::Stamped(stamped) => {
                    self.saw("stamped by the network");
                    return self.send_to_all(to, &Arrived::Frame(stamped, false));
                }
            }
        }
        let process = self.processes.get_mut(&to).expect("it is there");
        if process.stopped_until.is_some() {
            process.inbox.push((from, arrived));
            return;
        }
        self.take(from, to, arrived);
        self.work(to);
    }

    /// A process gets what has arrived. A sender sends a frame that the network has stamped to the sequencer's process.
    fn take(&mut self, from: MemberId, to: MemberId, arrived: Arrived) {
        let process = self.processes.get_mut(&to).expect("it is there");
        match arrived {
            Arrived::Message(message) => process.core.on_message(self.now, from, message),
            Arrived::Frame(stamped, is_held) => {
                let view = process.core.view();
                let is_own = stamped.epoch == view.epoch && view.slot(to) == Some(usize::from(stamped.sender));
                let echo = (is_own && !is_held).then(|| stamped.clone());
                process.core.on_stamped_frame(self.now, stamped);
                if let Some(echo) = echo {
                    self.send(to, from, Arrived::Frame(echo, true));
                }
            }
        }
    }

    fn multicast(&mut self, id: MemberId, message: Message) {
        match network::as_frame(&message).filter(|_| self.plan.stamps) {
            Some(frame) => self.send_to_all(id, &frame),
            None => {
                for to in self.processes[&id].core.audience() {
                    self.send(id, to, Arrived::Message(message.clone()));
                }
            }
        }
    }

    /// A frame to the group reaches all but the host that it comes from.
    fn send_to_all(&mut self, from: MemberId, arrived: &Arrived) {
        let others: Vec<MemberId> = self.live().filter(|id| *id != from).collect();
        others.into_iter().for_each(|to| self.send(from, to, arrived.clone()));
    }

    fn resume(&mut self, id: MemberId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.stopped_until.is_some_and(|until| until <= self.now) {
            process.stopped_until = None;
            for (from, arrived) in std::mem::take(&mut process.inbox) {
                self.take(from, id, arrived);
            }
            self.work(id);
        }
    }

    /// Let a process do what is due, and carry out what it wants.
    fn work(&mut self, id: MemberId) {
        let (now, pause) = (self.now, self.plan.pause);
        let Some(process) = self.processes.get_mut(&id) else { return };
        if !process.is_alive || process.stopped_until.is_some() {
            return;
        }
        if process.core.next_time() <= now {
            process.core.on_time(now);
        }
        while process.due.front().is_some_and(|due| due.at <= now)
            && let Some(due) = process.due.pop_front()
        {
            process.core.part_taken(due.joiner, &due.part, due.next);
        }
        if process.send_at <= now && process.left_to_send > 0 && process.ended.is_none() {
            let level = if self.rng.random_bool(self.plan.safe) { Level::Safe } else { Level::Agreed };
            let key = (id, self.plan.messages - process.left_to_send);
            if let Ok(own) = process.core.send(now, level, checks::payload(key)) {
                process.keys.insert(own, key);
                process.left_to_send -= 1;
            }
            process.send_at = now + pause.mul_f64(self.rng.random_range(0.0..2.0));
        }
        if self.plan.reads && self.rng.random_bool(0.02) {
            self.catch_up(id);
        }
        while let Some(output) = self.processes.get_mut(&id).and_then(|process| process.core.poll()) {
            self.carry_out(id, output);
        }
        let process = self.processes.get_mut(&id).expect("it is there");
        let mut tick_at = process.core.next_time();
        if process.left_to_send > 0 {
            tick_at = tick_at.min(process.send_at);
        }
        if let Some(due) = process.due.front() {
            tick_at = tick_at.min(due.at);
        }
        process.tick_at = tick_at.max(now + Duration::from_micros(10));
        let tick_at = process.tick_at;
        if process.ended.is_none() {
            self.at(tick_at, Event::Tick(id));
        }
    }

    fn carry_out(&mut self, id: MemberId, output: Output) {
        match output {
            Output::Send { to, message } => self.send(id, to, Arrived::Message(message)),
            Output::Multicast(message) => self.multicast(id, message),
            Output::Contact(message) => {
                let others: Vec<MemberId> = self.live().filter(|other| *other != id).collect();
                if !others.is_empty() {
                    let to = *pick(&mut self.rng, &others);
                    self.send(id, to, Arrived::Message(message));
                }
            }
            Output::Deliver(delivery) => self.deliver(id, delivery),
            Output::View(view) => {
                self.saw("view");
                if view.epoch.0 > 1 && view.sequencer != id && view.members.len() > 1 {
                    self.saw("sequencer replaced");
                }
                self.tell(|| format!("{id}: view {} of {:?}, led by {}", view.epoch.0, names(&view), view.sequencer));
            }
            Output::TakeState { joiner, place } => self.take_state(id, joiner, place),
            Output::BeginState { .. } | Output::ForgetState => {
                self.saw(if output == Output::ForgetState { "state forgotten" } else { "state in parts" });
                self.processes.get_mut(&id).expect("it is there").coming = Coming::default();
            }
            Output::StatePart { bytes, is_last } => {
                assert!(is_last, "it is short");
                self.processes.get_mut(&id).expect("it is there").coming.on_part(&bytes);
            }
            Output::StateMessages(messages) => {
                let coming = &mut self.processes.get_mut(&id).expect("it is there").coming;
                messages.iter().for_each(|entry| coming.on_message(checks::key(&entry.payload)));
                *self.seen.entry("messages with a state").or_default() += 1;
            }
            Output::RestoreState { number, state } => self.restore(id, number, state),
            Output::Returned { id: own, may_be_delivered } => {
                self.saw("returned");
                let process = self.processes.get_mut(&id).expect("it is there");
                let key = process.keys.remove(&own).expect("it was sent");
                if !may_be_delivered {
                    process.not_delivered.insert(key);
                }
            }
            Output::Diverged(from) => {
                self.saw("diverged");
                self.tell(|| format!("{id}: diverged from {from}"));
                let process = self.processes.get_mut(&id).expect("it is there");
                let delivered = std::mem::take(&mut process.delivered);
                process.past.push((process.first.unwrap_or(0), delivered));
            }
            Output::CaughtUp(question) => self.caught_up(id, question),
            Output::Primary(is_primary) => self.tell(|| format!("{id}: primary {is_primary}")),
            Output::Ended(why) => {
                self.saw(match why {
                    Ended::Left => "left",
                    Ended::Silent => "put out: silent",
                    Ended::TooSlow => "put out: too slow",
                    Ended::NotInView => "put out: not in view",
                    Ended::Full => "put out: full",
                });
                let process = &self.processes[&id];
                let was_member = process.core.views().any(|view| view.has(id));
                if why == Ended::NotInView && !was_member {
                    self.violation = Some(format!("{id}: wants to join, and is sent away: {why:?}"));
                }
                self.tell(|| format!("{id}: ended, {why:?}"));
                self.processes.get_mut(&id).expect("it is there").ended = Some(why);
            }
        }
    }

    /// A process gives its state: at once, or the part that begins there, at some time.
    fn take_state(&mut self, id: MemberId, joiner: MemberId, place: Place) {
        self.saw("state taken");
        let now = self.now;
        self.tell(|| format!("{id}: state for {joiner} at {now:?}, {place:?}"));
        let late = self.plan.parts && self.rng.random_bool(0.5);
        let wait = if late { Duration::from_micros(self.rng.random_range(0..20_000)) } else { Time::ZERO };
        let process = self.processes.get_mut(&id).expect("it is there");
        if !self.plan.parts {
            return process.core.state_taken(joiner, process.columns.whole());
        }
        let (part, next) = process.columns.part(place);
        match late {
            true => process.due.push_back(Due { at: now + wait, joiner, part, next }),
            false => process.core.part_taken(joiner, &part, next),
        }
    }

    fn restore(&mut self, id: MemberId, number: Number, state: Option<Bytes>) {
        let process = self.processes.get_mut(&id).expect("it is there");
        let coming = std::mem::take(&mut process.coming);
        match state.map(|state| Columns::from_whole(&state)).or_else(|| coming.whole()) {
            Some(columns) => process.columns = columns,
            None => self.violation = Some(format!("{id}: begins with a state that lacks a part")),
        }
        let process = self.processes.get_mut(&id).expect("it is there");
        process.first = Some(number);
        process.delivered.clear();
        self.tell(|| format!("{id}: begins with {number}"));
    }

    /// A member reads.
    fn catch_up(&mut self, id: MemberId) {
        let level = if self.rng.random() { Level::Safe } else { Level::Agreed };
        let (mut agreed, mut safe) = (BTreeMap::new(), 0);
        for process in self.processes.values() {
            let end = agreed.entry(process.core.view().epoch).or_insert(0);
            *end = process.core.delivered().max(*end);
            let last = process.delivered.iter().rfind(|(_, _, level)| *level == Level::Safe);
            safe = last.map_or(safe, |(number, ..)| safe.max(number + 1));
        }
        let (now, process) = (self.now, self.processes.get_mut(&id).expect("it lives"));
        if process.ended.is_none() && process.catches_up.len() < 8 {
            let question = process.core.catch_up(now, level);
            process.catches_up.insert(question, Reached { level, agreed, safe });
        }
    }

    fn caught_up(&mut self, id: MemberId, question: u64) {
        self.saw("caught up");
        let process = self.processes.get_mut(&id).expect("it lives");
        let Reached { level, agreed, safe } = process.catches_up.remove(&question).expect("it asked");
        let (epoch, delivered) = (process.core.view().epoch, process.core.delivered());
        let of_epoch = agreed.get(&epoch).copied().filter(|_| level == Level::Agreed).unwrap_or(0);
        if delivered < safe.max(of_epoch) {
            self.violation = Some(format!(
                "{id}: read {delivered} messages, and others had {safe} safe and {of_epoch} of its epoch before"
            ));
        }
    }

    fn deliver(&mut self, id: MemberId, delivery: Delivery) {
        let Delivery { number, level, payload, own, .. } = delivery;
        self.saw(if level == Level::Safe { "safe" } else { "delivered" });
        let process = self.processes.get_mut(&id).expect("it is there");
        let key = checks::key(&payload);
        if own.is_some_and(|own| process.keys.remove(&own) != Some(key)) {
            self.violation = Some(format!("{id}: its own message {key:?} is delivered as another one"));
        }
        process.columns.add(key);
        process.delivered.push((number, key, level));
        self.tell(|| format!("{id}: delivers {number} {key:?} {level:?}"));
    }

    fn send(&mut self, from: MemberId, to: MemberId, arrived: Arrived) {
        if self.cuts.values().any(|cut| cut.contains(&(from, to))) || self.rng.random_bool(self.plan.loss) {
            return;
        }
        let is_repair = matches!(&arrived, Arrived::Message(Message::Repaired { .. } | Message::NeedData { .. }));
        if is_repair && self.rng.random_bool(self.plan.repair_loss) {
            return self.saw("repair lost");
        }
        if let Arrived::Message(message) = &arrived
            && self.tells
            && !matches!(
                message,
                Message::Stamped(_)
                    | Message::Data { .. }
                    | Message::Submit { .. }
                    | Message::Ack(_)
                    | Message::Beat(_)
            )
        {
            let text: String = format!("{message:?}").chars().take(150).collect();
            self.tell(|| format!("    {from} -> {to} {text}"));
        }
        let copies = if self.rng.random_bool(self.plan.doubled) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = Duration::from_micros(15) + self.plan.delay.mul_f64(self.rng.random_range(0.0..1.0));
            let mut at = self.now + delay;
            if self.plan.is_reliable {
                let last = self.last_arrival.entry((from, to)).or_default();
                at = at.max(*last + Duration::from_nanos(1));
                *last = at;
            }
            self.at(at, Event::Arrive { from, to, arrived: arrived.clone() });
        }
    }

    fn live(&self) -> impl Iterator<Item = MemberId> + '_ {
        let live = self.processes.iter().filter(|(_, process)| process.is_alive && process.ended.is_none());
        live.map(|(id, _)| *id)
    }

    /// Whether the others go on without this process: in no view that may be current the dead are too many.
    fn can_lose(&self, id: MemberId) -> bool {
        let is_cut = |other| self.cuts.values().flatten().any(|(from, to)| *from == other || *to == other);
        let goes_on = |process: &Process| {
            process.is_alive && process.ended.is_none() && !process.leaves && process.stopped_until.is_none()
        };
        let lives = |other| other != id && goes_on(&self.processes[&other]) && !is_cut(other);
        let holds = |view: &View| {
            let is_lost = |other: &&MemberId| !view.has(**other) && !lives(**other);
            let lost_learners = self.processes.keys().filter(is_lost).count();
            let members = view.ids().filter(|id| lives(*id)).count();
            view.is_majority(lives) && members * 2 > view.members.len() + lost_learners.min(4)
        };
        self.live().all(|other| self.processes[&other].core.views().all(holds))
    }

    fn fault(&mut self) {
        if self.now >= self.plan.faults_end {
            self.cuts.clear();
            return;
        }
        let next = self.now + self.plan.fault_pause.mul_f64(self.rng.random_range(0.2..1.8));
        self.at(next, Event::Fault);
        let live: Vec<MemberId> = self.live().collect();
        let Some(id) = (!live.is_empty()).then(|| *pick(&mut self.rng, &live)) else { return };
        match self.rng.random_range(0..12) {
            0 | 1 if self.can_lose(id) => {
                self.saw("crash");
                self.tell(|| format!("{id}: crashes"));
                self.processes.get_mut(&id).expect("it lives").is_alive = false;
            }
            2 if self.can_lose(id) => {
                self.saw("leave");
                self.tell(|| format!("{id}: leaves"));
                let process = self.processes.get_mut(&id).expect("it lives");
                process.leaves = true;
                process.core.leave(self.now);
                self.work(id);
            }
            3..=5 => {
                let count = *pick(&mut self.rng, &[1, 1, 2, 8]);
                if live.len() + count <= 12 {
                    self.saw("join");
                    (0..count).for_each(|_| self.start());
                }
            }
            6 | 7 => self.stop(id),
            8 | 9 => self.part(&live, id),
            _ => (),
        }
    }

    fn stop(&mut self, id: MemberId) {
        self.saw("stop");
        let until = self.now + Duration::from_millis(*pick(&mut self.rng, &[20, 150, 500, 1500]));
        self.tell(|| format!("{id}: stops until {until:?}"));
        let process = self.processes.get_mut(&id).expect("it lives");
        process.stopped_until = Some(until);
        self.at(until, Event::Resume(id));
    }

    /// Cut the network in two, or the links from or to one process.
    fn part(&mut self, live: &[MemberId], id: MemberId) {
        let one_way = self.rng.random_bool(0.4);
        let left: BTreeSet<MemberId> = match self.rng.random_bool(0.5) {
            true => BTreeSet::from([id]),
            false => live.iter().copied().filter(|_| self.rng.random_bool(0.5)).collect(),
        };
        let mut cut = BTreeSet::new();
        for one in &left {
            for other in live.iter().filter(|other| !left.contains(other)) {
                cut.insert((*one, *other));
                if !one_way {
                    cut.insert((*other, *one));
                }
            }
        }
        self.saw(if one_way { "cut in one direction" } else { "cut" });
        self.tell(|| format!("cut: {cut:?}"));
        self.next_cut += 1;
        self.cuts.insert(self.next_cut, cut);
        let until = self.now + Duration::from_millis(*pick(&mut self.rng, &[50, 300, 1500]));
        self.at(until, Event::Heal(self.next_cut));
    }
}

fn names(view: &am_ordered_core::View) -> Vec<String> {
    view.ids().map(|id| id.to_string()).collect()
}
