//! Cores on a simulated wire with a simulated clock. A protocol test plays a scenario, and ends by asserting that
//! nothing is left over.
#![allow(unreachable_pub, reason = "a module of a test program: nothing outside of it can reach it")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use am_proto::{Config, Core, Delivery, EndpointId, Event, FlowId, FlowState, Time};
use am_wire::control::{Control, Incarnation, Name, NodeId};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, Class, EtherType, Flow, Framing, Header, Kind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The memory of a frame, shared by reference count.
#[derive(Clone, Debug)]
pub struct Buf {
    data: Rc<Vec<u8>>,
    len: usize,
}

impl Buf {
    pub fn fresh(size: usize) -> Buf {
        // Old content: nothing may depend on it or leak from it.
        Buf { data: Rc::new(vec![0xee; size]), len: 0 }
    }

    pub fn of(bytes: &[u8]) -> Buf {
        Buf { data: Rc::new(bytes.to_vec()), len: bytes.len() }
    }

    /// A control frame of a segment without a key.
    pub fn of_control(control: &Control, to: Address, from: Address) -> Buf {
        let (mut body, mut bytes) = ([0; Control::MAX_BYTES], [0; 256]);
        let length = control.emit(&mut body);
        let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
        let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
        frame::body(&mut bytes, Framing::Plain, length).unwrap().copy_from_slice(&body[..length]);
        let length = frame::emit(&mut bytes, Framing::Plain, &link, &header, length, None).unwrap();
        Buf::of(&bytes[..length])
    }
}

impl Buffer for Buf {
    fn bytes(&self) -> &[u8] {
        &self.data[..self.len]
    }

    fn space(&mut self) -> Option<&mut [u8]> {
        Rc::get_mut(&mut self.data).map(Vec::as_mut_slice)
    }

    fn set_len(&mut self, len: usize) {
        self.len = len.min(self.data.len());
    }

    fn share(&self) -> Self {
        self.clone()
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a test's name fits")
}

/// The faults of the wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub drop: f64,
    pub duplicate: f64,
    /// The chance that a frame is delayed by up to ten times the latency.
    pub delay: f64,
}

/// The network between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Every frame reaches all other nodes.
    Cable,
    /// A switch that learns source addresses.
    Switch,
    /// A filter that drops frames whose source is not the sender's true address.
    SpoofFilter,
}

/// Frames that never arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    None,
    All,
    /// Those that this node's NIC cuts, and its XDP program drops.
    LongerThan {
        node: usize,
        bytes: usize,
    },
    /// The first probes and answers to probes, up to this number.
    FirstProbes(usize),
    /// Acknowledgements in frames of their own.
    Acks,
    /// Frames between the first nodes, this many of them, and the others.
    Across(usize),
    /// Those from the first of these to the second, but for broadcasts: they arrive on the queue of another node.
    Unicast(usize, usize),
}

pub const MAX_FRAME: usize = 1514;

/// A frame in flight: when it arrives, its number, its receiver, and its bytes.
type Flight = (Time, usize, usize, Vec<u8>);

pub struct Net {
    pub now: Time,
    pub nodes: Vec<Option<Core<Buf>>>,
    pub wiring: Wiring,
    pub faults: Faults,
    pub loss: Loss,
    pub latency: Duration,
    /// Frames sent since the start.
    pub sent: usize,
    /// The share of frames in which a bit is changed.
    pub damage: f64,
    /// If enabled: what the nodes received, and which node did.
    pub log: Option<Vec<(usize, Vec<u8>)>>,
    learned: HashMap<[u8; 6], usize>,
    wire: BinaryHeap<Reverse<Flight>>,
    random: SmallRng,
    starts: u64,
}

impl Net {
    pub fn new(seed: u64) -> Net {
        Net {
            now: Time(1),
            nodes: Vec::new(),
            wiring: Wiring::Cable,
            faults: Faults::default(),
            loss: Loss::None,
            latency: Duration::from_micros(3),
            sent: 0,
            damage: 0.0,
            log: None,
            learned: HashMap::new(),
            wire: BinaryHeap::new(),
            random: SmallRng::seed_from_u64(seed),
            starts: 0,
        }
    }

    pub fn config(&mut self, at: usize, named: &str) -> Config {
        self.starts += 1;
        let address = Address([0x02, 0, 0, 0, 1, at as u8]);
        let mut config = Config::new(NodeId(at as u64 + 1), Incarnation(self.starts), name(named), address);
        config.seed ^= self.random.random::<u64>();
        config
    }

    /// A node named `named`, with one endpoint "app" of tag 7.
    pub fn node(&mut self, named: &str) -> (usize, EndpointId) {
        let at = self.nodes.len();
        let config = self.config(at, named);
        self.start(config)
    }

    pub fn start(&mut self, config: Config) -> (usize, EndpointId) {
        let mut core = Core::new(config, self.now);
        let endpoint = core.add_endpoint(name("app"), 7).unwrap();
        self.nodes.push(Some(core));
        (self.nodes.len() - 1, endpoint)
    }

    /// Kill the node at `at` without a Close, and start it again.
    pub fn restart(&mut self, at: usize, named: &str) -> EndpointId {
        let config = self.config(at, named);
        let mut core = Core::new(config, self.now);
        let endpoint = core.add_endpoint(name("app"), 7).unwrap();
        self.nodes[at] = Some(core);
        endpoint
    }

    pub fn core(&mut self, at: usize) -> &mut Core<Buf> {
        self.nodes[at].as_mut().expect("a node that is running")
    }

    pub fn is_open(&mut self, at: usize, flow: FlowId) -> bool {
        matches!(self.core(at).state(flow), FlowState::Open { .. })
    }

    /// Put all outputs onto the wire.
    pub fn drain(&mut self) {
        for at in 0..self.nodes.len() {
            while let Some(transmit) =
                self.nodes[at].as_mut().and_then(|core| core.poll_transmit(&mut || Some(Buf::fresh(2048))))
            {
                self.sent += 1;
                let bytes = transmit.frame.bytes().to_vec();
                assert_eq!(bytes[..6], transmit.to.0, "the frame and the transport agree on the destination");
                self.send_frame(at, bytes);
            }
            self.nodes[at].iter_mut().for_each(|core| core.run_deferred(self.now));
        }
    }

    fn send_frame(&mut self, from: usize, bytes: Vec<u8>) {
        let source: [u8; 6] = bytes[6..12].try_into().unwrap();
        if self.wiring == Wiring::SpoofFilter && source != [0x02, 0, 0, 0, 1, from as u8] {
            return;
        }
        let to: [u8; 6] = bytes[..6].try_into().unwrap();
        let mut port = None;
        if self.wiring == Wiring::Switch {
            self.learned.insert(source, from);
            port = self.learned.get(&to).copied();
        }
        for receiver in (0..self.nodes.len()).filter(|&n| n != from && port.is_none_or(|port| port == n)) {
            if self.random.random_bool(self.faults.drop) || self.is_lost(from, receiver, &bytes) {
                continue;
            }
            self.schedule(receiver, bytes.clone());
            if self.random.random_bool(self.faults.duplicate) {
                self.schedule(receiver, bytes.clone());
            }
        }
    }

    fn is_lost(&mut self, from: usize, receiver: usize, bytes: &[u8]) -> bool {
        match &mut self.loss {
            Loss::LongerThan { node, bytes: most } => receiver == *node && bytes.len() > *most,
            Loss::FirstProbes(count) if *count > 0 => {
                let parsed = am_wire::frame::parse(bytes, EtherType::DEFAULT).ok();
                let control = parsed.and_then(|parsed| Control::parse(parsed.payload).ok());
                let is_one = matches!(control, Some(Control::Probe(_) | Control::ProbeSeen(_)));
                *count -= usize::from(is_one);
                is_one
            }
            Loss::Acks => {
                let parsed = am_wire::frame::parse(bytes, EtherType::DEFAULT);
                parsed.is_ok_and(|parsed| parsed.header.kind == am_wire::Kind::Ack)
            }
            Loss::Unicast(source, to) => (from, receiver) == (*source, *to) && bytes[0] & 1 == 0,
            Loss::All => true,
            Loss::Across(first) => (from < *first) != (receiver < *first),
            Loss::None | Loss::FirstProbes(_) => false,
        }
    }

    fn schedule(&mut self, receiver: usize, bytes: Vec<u8>) {
        let extra = if self.random.random_bool(self.faults.delay) { self.random.random_range(1..10) } else { 0 };
        self.starts += 1;
        let at = self.now + self.latency * (1 + extra);
        self.wire.push(Reverse((at, self.starts as usize, receiver, bytes)));
    }

    /// Advance the clock to the next event and process it. `false` if there is none before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        self.drain();
        let frame_at = self.wire.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let timer_at = self.nodes.iter().flatten().map(|core| core.sleep_until()).min().unwrap_or(Time::NEVER);
        let next = frame_at.min(timer_at);
        if next > until {
            self.now = self.now.max(until);
            return false;
        }
        self.now = self.now.max(next);
        while let Some(Reverse((at, ..))) = self.wire.peek()
            && *at <= self.now
        {
            let Some(Reverse((_, _, receiver, mut bytes))) = self.wire.pop() else { break };
            if self.random.random_bool(self.damage) {
                let bit = self.random.random_range(0..8 * bytes.len());
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            self.receive(receiver, &bytes);
        }
        for core in self.nodes.iter_mut().flatten() {
            core.on_timeout(self.now);
        }
        self.drain();
        true
    }

    /// Does what the NIC's filter and the XDP program do.
    fn receive(&mut self, receiver: usize, bytes: &[u8]) {
        let Some(core) = self.nodes[receiver].as_mut() else { return };
        let own = core.config().address;
        let mut table = am_wire::steer::SteeringTable::new(EtherType::DEFAULT, own);
        table.flows.fill(1);
        use am_wire::steer::Decision;
        if let Decision::Socket(_) | Decision::Control(_) = am_wire::steer::steer(bytes, &table) {
            self.log.iter_mut().for_each(|log| log.push((receiver, bytes.to_vec())));
            core.run_deferred(self.now);
            core.on_frame(Buf::of(bytes));
        }
    }

    /// Run until `done`, or for `limit` of simulated time.
    pub fn run(&mut self, limit: Duration, mut done: impl FnMut(&mut Net) -> bool) {
        let until = self.now + limit;
        while !done(self) {
            assert!(self.step(until), "no event is left, and the condition does not hold");
        }
    }

    /// Let time pass.
    pub fn idle(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.step(until) {}
    }

    /// An open flow from `from`'s endpoint to "app" of the node named `to`.
    pub fn connect(&mut self, from: usize, endpoint: EndpointId, to: &str) -> FlowId {
        self.connect_many(from, endpoint, to, 1)[0]
    }

    /// `count` such flows, all asked for at once.
    pub fn connect_many(&mut self, from: usize, endpoint: EndpointId, to: &str, count: usize) -> Vec<FlowId> {
        let now = self.now;
        let connect = |core: &mut Core<Buf>| core.connect(now, endpoint, (name(to), name("app"), 7), true).unwrap();
        let flows: Vec<FlowId> = (0..count).map(|_| connect(self.core(from))).collect();
        let is_settled = |net: &mut Net, flow: &FlowId| net.core(from).state(*flow) != FlowState::Connecting;
        self.run(Duration::from_secs(10), |net| flows.iter().all(|flow| is_settled(net, flow)));
        flows.iter().for_each(|&flow| assert!(self.is_open(from, flow), "{:?}", self.core(from).state(flow)));
        flows
    }

    pub fn send(
        &mut self,
        from: usize,
        flow: FlowId,
        class: Class,
        word: u64,
        payload: &[u8],
    ) -> Result<(), am_proto::SendError> {
        self.send_to(from, flow, class, 3, word, payload)
    }

    /// The same, for this handler.
    pub fn send_to(
        &mut self,
        from: usize,
        flow: FlowId,
        class: Class,
        handler: u8,
        word: u64,
        payload: &[u8],
    ) -> Result<(), am_proto::SendError> {
        let body = 8 + payload.len();
        let write = |place: &mut [u8]| {
            place[..8].copy_from_slice(&word.to_be_bytes());
            place[8..].copy_from_slice(payload);
        };
        let core = self.core(from);
        if let Some(place) = core.append(flow, class, handler, 1, body) {
            write(place);
            return Ok(());
        }
        core.send(flow, class, handler, 1, Buf::fresh(2048), body, write).map_err(|(error, _)| error)
    }

    /// Take and handle the next message of an endpoint: no reply, credit back.
    pub fn extract(&mut self, at: usize, endpoint: EndpointId) -> Option<Delivery<Buf>> {
        let delivery = self.core(at).poll_deliver(endpoint)?;
        if delivery.class == Class::Request {
            self.core(at).decline_reply(delivery.flow);
        }
        self.core(at).release(delivery.flow, delivery.class, 1);
        Some(delivery)
    }

    /// Answer the next request with its own word and payload.
    pub fn echo(&mut self, at: usize, endpoint: EndpointId) -> bool {
        let Some(request) = self.core(at).poll_deliver(endpoint) else { return false };
        assert_eq!(request.class, Class::Request);
        let payload = request.payload().to_vec();
        self.send(at, request.flow, Class::Reply, request.words().at(0), &payload).unwrap();
        self.core(at).release(request.flow, Class::Request, 1);
        true
    }

    pub fn events(&mut self, at: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.core(at).poll_event()).collect()
    }
}
