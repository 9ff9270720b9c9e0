//! A node of a crowd. A sender sends as much as it has credit for; a receiver takes what arrives.

use am_engine::{Engine, PollScope};
use am_netdev_sim::{Nanos, Net, US};
use am_proto::{Config, Core, EndpointId, Event, FlowId, FlowState, FramingChoice, Time};
use am_ring::Frame;
use am_transport::Transport;
use am_wire::control::{Incarnation, Name, NodeId};
use am_wire::{Class, Framing, Kind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::figures::Samples;
use super::{Crowd, TURN_TIME};

pub struct Host {
    at: usize,
    pub engine: Engine,
    endpoint: EndpointId,
    /// A sender's flows to the receivers.
    flows: Vec<FlowId>,
    /// A receiver's flows from the senders.
    accepted: Vec<FlowId>,
    events: Vec<Event>,
    /// Turns take random times. Hosts in lockstep would show effects that no real network has.
    random: SmallRng,
}

fn name(node: usize) -> Name {
    Name::new(&format!("node{node}")).expect("short")
}

impl Host {
    pub fn new(crowd: &Crowd, net: &mut Net, at: usize) -> Host {
        let mut config = Config::new(NodeId(at as u64 + 1), Incarnation(1), name(at), net.address(at));
        // Probes would be part of the figures.
        config.probe_length = false;
        config.framing = FramingChoice::Fixed(Framing::Split);
        config.window = crowd.window.unwrap_or(config.window);
        config.seed = at as u64 * 7919;
        let mut core = Core::new(config, Time(0));
        let endpoint = core.add_endpoint(name(0), 0).expect("the first");
        let receivers = [(0, true), (crowd.senders + 1, crowd.slow)];
        let to = receivers.iter().filter(|(_, is_there)| *is_there && (1..=crowd.senders).contains(&at));
        let flows =
            to.map(|&(to, _)| core.connect(Time(0), endpoint, (name(to), name(0), 0), true).expect("room")).collect();
        let engine = Engine::new(core, net.nic(at).caps().pool.clone());
        let random = SmallRng::seed_from_u64(at as u64);
        Host { at, engine, endpoint, flows, accepted: vec![], events: vec![], random }
    }

    /// Run a turn. Returns the time by which the next is due.
    pub fn turn(&mut self, crowd: &Crowd, net: &mut Net, seen: &mut Samples) -> Nanos {
        let (at, now) = (self.at, net.now());
        let received = self.engine.inhale(PollScope::Everything, || Time(now), net.nic(at));
        self.take(crowd, now, seen);
        let mut waits = false;
        for flow in 0..self.flows.len() {
            waits |= (crowd.sends)(at, now) && self.send(crowd, self.flows[flow], now);
        }
        let events = &mut self.events;
        events.extend(std::iter::from_fn(|| self.engine.core_mut().poll_event()));
        let sent = self.engine.exhale(|| Time(now), net.nic(at));
        for event in self.events.drain(..) {
            if let Event::Accepted(_, flow, _) = event {
                self.accepted.push(flow);
            }
        }
        net.start_nic(at);
        let busy = waits || received + sent > 0 || net.nic(at).has_arrivals();
        let turn = TURN_TIME + self.random.random_range(0..TURN_TIME / 2);
        let due = if busy { 0 } else { self.engine.sleep_until().0.min(now + 50 * US) };
        due.max(now + turn)
    }

    fn take(&mut self, crowd: &Crowd, now: Nanos, seen: &mut Samples) {
        let is_slow = self.at > crowd.senders;
        let most = if is_slow { 1 } else { usize::MAX };
        for _ in 0..most {
            let core = self.engine.core_mut();
            let message = if crowd.bulk { core.poll_bulk(self.endpoint) } else { core.poll_deliver(self.endpoint) };
            let Some(message) = message else { break };
            let (flow, class) = (message.flow, message.class);
            if !is_slow && class == Class::Request {
                seen.record(now, message.payload());
            }
            if class == Class::Request && !crowd.bulk {
                drop(message);
                let frame = if crowd.answers { self.engine.pool().take() } else { None };
                let core = self.engine.core_mut();
                match frame {
                    Some(_) if core.append(flow, Class::Reply, 0, 0, 0).is_some() => {}
                    Some(frame) => _ = core.send(flow, Class::Reply, 0, 0, frame, 0, |_| ()),
                    None => core.decline_reply(flow),
                }
            }
            self.engine.core_mut().release(flow, class, 1);
        }
    }

    /// Send as much as there is credit for. Whether the sender was stopped by something else than credit.
    fn send(&mut self, crowd: &Crowd, flow: FlowId, now: Nanos) -> bool {
        let FlowState::Open { max_body, .. } = self.engine.core().state(flow) else { return false };
        let body = crowd.body.unwrap_or(max_body);
        while self.engine.core().credit(flow, Class::Request) > 0 {
            let Some(frame) = self.engine.pool().take() else { return true };
            if !self.send_one(crowd, flow, body, frame, now) {
                return true;
            }
        }
        false
    }

    fn send_one(&mut self, crowd: &Crowd, flow: FlowId, body: usize, frame: Frame, now: Nanos) -> bool {
        let from = self.at as u64;
        let write = |place: &mut [u8]| {
            place[..8].copy_from_slice(&now.to_be_bytes());
            place[8..16].copy_from_slice(&from.to_be_bytes());
        };
        let core = self.engine.core_mut();
        if crowd.bulk {
            return core.send(flow, Kind::Put, 0, 0, frame, body, write).is_ok();
        }
        if let Some(place) = core.append(flow, Class::Request, 0, 0, body) {
            write(place);
            return true;
        }
        core.send(flow, Class::Request, 0, 0, frame, body, write).is_ok()
    }

    /// The credit that each accepted flow has.
    pub fn granted(&self) -> impl Iterator<Item = usize> {
        let core = self.engine.core();
        self.accepted.iter().map(|&flow| core.granted_to(flow, Class::Request))
    }
}
