//! The application. It sends requests of random sizes, some prepared in advance. It replies at once, later, or never,
//! and keeps some messages for a while. It closes flows and its endpoint at random times, and opens others.

mod closing;
mod held;

use std::collections::BTreeMap;

use am_engine::Engine;
use am_netdev_sim::check::content::{MessageId, NodeRun, fill};
use am_netdev_sim::check::{Checked, Violation};
use am_netdev_sim::{MS, Nanos, Net, US};
use am_proto::{Delivery, EndpointId, Event, Fate, FlowId, FlowState, ReturnReason, SendError, Time};
use am_ring::Frame;
use am_wire::{Class, MAX_WORDS};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::checks::{Checks, NAME_TAKEN, is_ordered};
use super::node::{TAG, app_name, name};
use super::work::Work;
use held::{HeldMessage, PendingReply, Prepared};

pub struct App {
    pub run: NodeRun,
    endpoint: EndpointId,
    work: Work,
    peers: u16,
    random: SmallRng,
    number: u32,
    requests_left: u32,
    next: Nanos,
    /// The application is busy until then, and extracts nothing.
    busy_until: Nanos,
    serial: u64,
    /// Flows that this run asked for.
    pub flows: Vec<Flow>,
    /// Flows that peers asked for, by the number that their first request carries.
    pub accepted: BTreeMap<u64, FlowId>,
    /// Flows that peers asked for, and their initial credit for replies.
    granted: Vec<(FlowId, usize)>,
    /// Flows that ended without a close of this application.
    pub ended: Vec<EndedFlow>,
    /// Flows that still have to send a last request.
    last_requests: Vec<u64>,
    kept: Vec<PendingReply>,
    /// Messages that outlive their handler.
    held: Vec<HeldMessage>,
    prepared: Vec<Prepared>,
}

/// A flow, and its number in the whole run.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub id: FlowId,
    pub serial: u64,
    pub to: u16,
    pub since: Nanos,
    /// The application knows that it is open, and the checker counts its credits.
    open: bool,
}

/// A node's report of the end of a flow.
#[derive(Clone, Copy, Debug)]
pub struct EndedFlow {
    pub serial: u64,
    pub reason: ReturnReason,
    pub to: u16,
    pub ours: bool,
}

impl App {
    pub fn new(run: NodeRun, endpoint: EndpointId, work: &Work, net: &Net) -> App {
        let seed = work.seed ^ (run.node as u64) << 32 ^ (run.run as u64) << 48;
        App {
            run,
            endpoint,
            work: work.clone(),
            peers: net.options().nodes as u16,
            random: SmallRng::seed_from_u64(seed),
            number: 0,
            requests_left: work.requests,
            next: net.now(),
            busy_until: 0,
            serial: (run.node as u64) << 48 | (run.run as u64) << 32,
            flows: vec![],
            accepted: BTreeMap::new(),
            granted: vec![],
            ended: vec![],
            last_requests: vec![],
            kept: vec![],
            held: vec![],
            prepared: vec![],
        }
    }

    /// The time of its next own work.
    pub fn due(&self, engine: &Engine, checks: &Checks, now: Nanos) -> Nanos {
        // A waiting request may also wait for a slot for its reply.
        let message = if engine.core().has_deliveries() { self.busy_until.max(now + 50 * US) } else { Nanos::MAX };
        let reply = self.kept.iter().map(|kept| kept.at).min().unwrap_or(Nanos::MAX);
        let request = if self.requests_left > 0 && !checks.is_quiet(now) { self.next } else { Nanos::MAX };
        let quiet = if now < checks.quiet_from { checks.quiet_from } else { Nanos::MAX };
        let encore = if self.last_requests.is_empty() { Nanos::MAX } else { now + MS };
        reply.min(request).min(quiet).min(encore).min(message).min(self.held_until())
    }

    /// How many replies, set-ups and held messages are unresolved.
    pub fn undecided(&self, engine: &Engine) -> usize {
        let asking = self.flows.iter().filter(|flow| engine.core().state(flow.id) == FlowState::Connecting);
        let here = self.kept.len() + self.held.len() + self.prepared.len() + self.last_requests.len();
        here + asking.count() + engine.core().replies_owed()
    }

    /// Visit the frames that it holds.
    pub fn frames(&self, each: &mut dyn FnMut(&Frame)) {
        self.held.iter().for_each(|held| each(held.frame()));
        self.prepared.iter().for_each(|prepared| each(&prepared.frame));
    }

    /// The local half of the flow with this number, asked for or accepted.
    pub fn half(&self, serial: u64, ours: bool) -> Option<FlowId> {
        let asked = || self.flows.iter().find(|flow| flow.serial == serial).map(|flow| flow.id);
        if ours { asked() } else { self.accepted.get(&serial).copied() }
    }

    /// Send a last request on each of these flows that is open.
    pub fn queue_last_requests(&mut self, which: impl Fn(u64) -> bool) {
        let open = self.flows.iter().filter(|flow| flow.open).map(|flow| flow.serial);
        self.last_requests = open.filter(|&serial| which(serial)).collect();
    }

    pub fn turn(&mut self, now: Nanos, engine: &mut Engine, checks: &mut Checks) -> Checked {
        self.extract(now, engine, checks)?;
        while let Some(back) = engine.core_mut().poll_returned(self.endpoint) {
            let message = back.message;
            let over = !matches!(engine.core().state(message.flow), FlowState::Open { .. } | FlowState::Connecting);
            checks.add_to_digest(now, message.words().at(0));
            let certain = back.fate == Fate::NotDelivered;
            checks.deliveries.returned(self.run, over, certain, message.words().as_slice(), message.payload())?;
            checks.order.returned(MessageId::from_word(message.words().at(0)))?;
        }
        self.send_due_replies(now, engine, checks)?;
        self.release_due_messages(now, engine, checks)?;
        self.commit_due_requests(now, engine, checks)?;
        if !checks.is_quiet(now) {
            self.close_some(now, engine, checks);
            self.connect(now, engine, checks);
            self.request(now, engine, checks)?;
        }
        self.send_last_requests(engine, checks);
        Ok(())
    }

    fn extract(&mut self, now: Nanos, engine: &mut Engine, checks: &mut Checks) -> Checked {
        if now < self.busy_until {
            return Ok(());
        }
        for _ in 0..self.work.extract {
            let Some(message) = engine.core_mut().poll_deliver(self.endpoint) else { break };
            self.busy_until = now + self.work.busy;
            self.on_message(now, message, engine, checks)?;
        }
        Ok(())
    }

    /// Each open flow: its number, the class of the messages that this node sends on it, the local half, the other node,
    /// and a time before its set-up.
    pub fn open_flows(&self, engine: &Engine) -> impl Iterator<Item = (u64, Class, FlowId, u16, Nanos)> {
        let ours = self.flows.iter().filter(|flow| flow.open);
        let ours = ours.map(|flow| (flow.serial, Class::Request, flow.id, flow.to, flow.since));
        let theirs = self.accepted.iter();
        let theirs =
            theirs.map(|(&serial, &id)| (serial, Class::Reply, id, MessageId::from_word(serial).from.node, Nanos::MAX));
        ours.chain(theirs).filter(|(_, _, id, ..)| is_open(engine, *id))
    }

    /// The credit that each open flow has left.
    pub fn credits(&self, engine: &Engine) -> impl Iterator<Item = (u64, Class, usize)> {
        self.open_flows(engine).map(|(serial, class, id, ..)| (serial, class, engine.core().credit(id, class)))
    }

    /// The credit that the other side of each open flow has.
    pub fn grants(&self, engine: &Engine) -> impl Iterator<Item = (u64, Class, usize)> {
        let other = |class| if class == Class::Request { Class::Reply } else { Class::Request };
        let flows = self.open_flows(engine).map(move |(serial, class, id, ..)| (serial, other(class), id));
        flows.map(|(serial, class, id)| (serial, class, engine.core().granted_to(id, class)))
    }

    /// Send the last requests. One without credit waits; if it waits for ever, a checker reports it.
    fn send_last_requests(&mut self, engine: &mut Engine, checks: &mut Checks) {
        for serial in std::mem::take(&mut self.last_requests) {
            let Some(&Flow { id, to, .. }) = self.flows.iter().find(|flow| flow.serial == serial) else { continue };
            match self.send(id, serial, to, Class::Request, engine, checks) {
                Some(Ok(())) | Some(Err(SendError::Ended(_))) => (),
                _ => self.last_requests.push(serial),
            }
        }
    }

    pub fn on_event(&mut self, event: Event, engine: &mut Engine, checks: &mut Checks) {
        match event {
            Event::Accepted(_, id, _) => self.granted.push((id, engine.core().credit(id, Class::Reply))),
            Event::SetupFinished(_, id) => self.on_settled(id, engine, checks),
            Event::Ended(_, id, ending) => self.on_ended(id, ending.reason, engine, checks),
            _ => (),
        }
    }

    fn on_settled(&mut self, id: FlowId, engine: &mut Engine, checks: &mut Checks) {
        let Some(at) = self.flows.iter().position(|flow| flow.id == id) else { return };
        if is_open(engine, id) {
            self.flows[at].open = true;
            let credit = engine.core().credit(id, Class::Request);
            checks.credits.open_flow(self.flows[at].serial, Class::Request, credit);
        } else {
            checks.count_event("refused or not found");
            engine.core_mut().close(id);
            self.flows.remove(at);
        }
    }

    fn on_ended(&mut self, id: FlowId, reason: ReturnReason, engine: &mut Engine, checks: &mut Checks) {
        checks.count_event(match reason {
            ReturnReason::Unreachable => "given up by a sender",
            ReturnReason::Closed => "closed by the peer",
            ReturnReason::Restarted => "peer restarted",
            ReturnReason::Tag => unreachable!("tags do not change here"),
            ReturnReason::NoHandler => unreachable!("it ends no flow"),
            ReturnReason::Forked => unreachable!("no process is forked"),
            ReturnReason::NotPolling => unreachable!("it ends no flow"),
            // Each name has one node, but damaged frames may say otherwise.
            ReturnReason::NameTaken => NAME_TAKEN,
        });
        self.granted.retain(|(granted, _)| *granted != id);
        if let Some(at) = self.flows.iter().position(|flow| flow.id == id) {
            let Flow { serial, to, .. } = self.flows.remove(at);
            checks.ended(serial, reason);
            self.ended.push(EndedFlow { serial, reason, to, ours: true });
            engine.core_mut().close(id);
        } else if let Some((&serial, _)) = self.accepted.iter().find(|(_, accepted)| **accepted == id) {
            self.accepted.remove(&serial);
            checks.ended(serial, reason);
            let to = MessageId::from_word(serial).from.node;
            self.ended.push(EndedFlow { serial, reason, to, ours: false });
        }
    }

    fn on_message(
        &mut self,
        now: Nanos,
        message: Delivery<Frame>,
        engine: &mut Engine,
        checks: &mut Checks,
    ) -> Checked {
        let words = message.words();
        checks.add_to_digest(now, words.at(0));
        checks.deliveries.delivered(self.run, words.as_slice(), message.payload())?;
        checks.order.delivered(MessageId::from_word(words.at(0)))?;
        let (flow, class, serial) = (message.flow, message.class, words.at(1));
        checks.delivered(serial, class);
        if class == Class::Request {
            if self.accepted.insert(serial, flow).is_none()
                && let Some(at) = self.granted.iter().position(|(id, _)| *id == flow)
            {
                checks.credits.open_flow(serial, Class::Reply, self.granted.swap_remove(at).1);
            }
            let late = if self.random.random_bool(0.2) { self.random.random_range(0..self.work.max_hold) } else { 0 };
            self.kept.push(PendingReply {
                flow,
                serial,
                to: MessageId::from_word(words.at(0)).from.node,
                at: now + late,
            });
        }
        if self.hold(now, &message, checks) {
            return Ok(());
        }
        drop(message);
        checks.credits.released(serial, class);
        engine.core_mut().release(flow, class, 1);
        Ok(())
    }

    fn send_due_replies(&mut self, now: Nanos, engine: &mut Engine, checks: &mut Checks) -> Checked {
        let (due, kept) = std::mem::take(&mut self.kept).into_iter().partition(|kept| kept.at <= now);
        self.kept = kept;
        let due: Vec<PendingReply> = due;
        for kept in due {
            if !checks.is_last_round && self.random.random_bool(0.1) {
                engine.core_mut().decline_reply(kept.flow);
                continue;
            }
            match self.send(kept.flow, kept.serial, kept.to, Class::Reply, engine, checks) {
                None => self.kept.push(PendingReply { at: now + 1, ..kept }),
                Some(Ok(())) => self.check_credit(kept.serial, Class::Reply, engine, checks)?,
                Some(Err(SendError::Ended(_) | SendError::Unknown)) => engine.core_mut().decline_reply(kept.flow),
                Some(Err(error)) => {
                    return Err(Violation { checker: "replies", what: format!("a reply was refused: {error}") });
                }
            }
        }
        Ok(())
    }

    fn connect(&mut self, now: Nanos, engine: &mut Engine, checks: &mut Checks) {
        if self.requests_left == 0 || self.flows.len() >= self.work.flows || now < self.next {
            return;
        }
        let to = (self.run.node + self.random.random_range(1..self.peers)) % self.peers;
        self.serial += 1;
        let (at, core) = (Time(now), engine.core_mut());
        let asked = (name(to), app_name(), TAG);
        if let Ok(id) = core.connect(at, self.endpoint, asked, is_ordered(self.serial)) {
            checks.asked.push((self.serial, self.run.node, to));
            self.flows.push(Flow { id, serial: self.serial, to, since: now, open: false });
        }
    }

    fn request(&mut self, now: Nanos, engine: &mut Engine, checks: &mut Checks) -> Checked {
        if now < self.next || self.requests_left == 0 {
            return Ok(());
        }
        self.next = now + self.random.random_range(1..=self.work.pause);
        for _ in 0..self.random.random_range(1..12) {
            if self.requests_left == 0 || self.flows.is_empty() {
                break;
            }
            let flow = self.flows[self.random.random_range(0..self.flows.len())];
            if !flow.open {
                continue;
            }
            if self.random.random_bool(self.work.prepare) {
                self.prepare(now, flow, engine);
                self.requests_left -= 1;
                continue;
            }
            match self.send(flow.id, flow.serial, flow.to, Class::Request, engine, checks) {
                Some(Ok(())) => self.requests_left -= 1,
                Some(Err(SendError::NoCredit)) => checks.count_event("no credit"),
                Some(Err(SendError::Full(_))) => checks.count_event("no slot"),
                Some(Err(_)) => (),
                None => checks.count_event("no frame"),
            }
            self.check_credit(flow.serial, Class::Request, engine, checks)?;
        }
        Ok(())
    }

    /// Check that credit is conserved, after each event that changes it.
    fn check_credit(&self, serial: u64, class: Class, engine: &Engine, checks: &Checks) -> Checked {
        let half = self.half(serial, class == Class::Request).filter(|id| is_open(engine, *id));
        half.map_or(Ok(()), |id| checks.credits.check(serial, class, engine.core().credit(id, class)))
    }

    /// Send a message of random size. `None` if the pool has no frame.
    fn send(
        &mut self,
        flow: FlowId,
        serial: u64,
        to: u16,
        class: Class,
        engine: &mut Engine,
        checks: &mut Checks,
    ) -> Option<Result<(), SendError>> {
        let frame = engine.pool().take()?;
        let most = match engine.core().state(flow) {
            FlowState::Open { max_body, .. } => max_body,
            _ => 16,
        };
        let words = self.random.random_range(2..=MAX_WORDS);
        let size = if self.random.random_bool(0.5) { most } else { most.min(100) };
        let size = self.random.random_range(words * 8..=size.max(words * 8));
        let id = MessageId { from: self.run, number: self.number };
        let write = |place: &mut [u8]| fill(place, id, serial);
        let (core, handler) = (engine.core_mut(), self.number as u8);
        let sent = if let Some(place) = core.append(flow, class, handler, words as u8, size) {
            write(place);
            Ok(())
        } else {
            core.send(flow, class, handler, words as u8, frame, size, write)
        };
        if sent.is_ok() {
            self.number += 1;
            checks.sent(id, to, size, serial, class, self.work.first_number);
        }
        Some(sent.map_err(|(error, _)| error))
    }
}

fn is_open(engine: &Engine, flow: FlowId) -> bool {
    matches!(engine.core().state(flow), FlowState::Open { .. })
}
