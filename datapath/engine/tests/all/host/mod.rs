//! A host whose transport records every call, and two hosts with a flow between them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::collections::VecDeque;

use am_engine::Engine;
use am_proto::{Config, Core, EndpointId, Event, FlowId, FlowState, FramingChoice, Time};
use am_ring::{Frame, Layout, Pool};
use am_transport::{Caps, Command, PeerAddressError, Transport};
use am_wire::control::{Incarnation, Name, NodeId};
use am_wire::{Address, Buffer, Class, Flow, Framing};

/// A transport that records its calls, and takes as many frames as it has room for.
pub struct RecordingTransport {
    pub caps: Caps,
    pub arriving: VecDeque<Frame>,
    pub sent: Vec<Frame>,
    pub room: usize,
    pub calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Receive(usize),
    Send,
    Full,
    Steer(Flow, bool),
    Flush,
}

impl RecordingTransport {
    pub fn new(address: Address) -> RecordingTransport {
        let pool = Pool::heap(Layout { frames: 512, stride: 2048, headroom: 64 }).unwrap();
        let caps = Caps {
            name: "notes".into(),
            mode: "memory".into(),
            address,
            max_frame: 1514,
            reliable: true,
            ordered: true,
            hears_all: true,
            pool,
            wake: None,
            wakes_by_level: false,
            out_of_band: None,
        };
        RecordingTransport { caps, arriving: VecDeque::new(), sent: Vec::new(), room: usize::MAX, calls: Vec::new() }
    }

    /// Receive the frames that the peer has sent.
    pub fn take_from(&mut self, peer: &mut RecordingTransport) {
        for frame in peer.sent.drain(..) {
            self.arriving.push_back(self.caps.pool.copy(frame.bytes()).expect("a frame"));
        }
    }
}

impl Transport for RecordingTransport {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let count = budget.min(self.arriving.len());
        self.calls.push(Call::Receive(count));
        self.arriving.drain(..count).for_each(each);
        count
    }

    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        if self.room == 0 {
            self.calls.push(Call::Full);
            return false;
        }
        self.room -= 1;
        self.calls.push(Call::Send);
        self.sent.push(frame.share());
        true
    }

    fn flush(&mut self) {
        self.calls.push(Call::Flush);
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        if let Command::Steer { flow, open } = command {
            self.calls.push(Call::Steer(flow, open));
        }
        command.without_peers(&self.caps)
    }

    fn counters(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}

pub struct Host {
    pub engine: Engine,
    pub notes: RecordingTransport,
    pub endpoint: EndpointId,
    pub events: Vec<Event>,
}

impl Host {
    pub fn new(number: u8, name: &str) -> Host {
        Host::with(number, name, |_| ())
    }

    pub fn with(number: u8, name: &str, adjust: impl FnOnce(&mut Config)) -> Host {
        let address = Address([2, 0, 0, 0, 0, number]);
        let mut config = Config::new(NodeId(number as u64), Incarnation(1), Name::new(name).unwrap(), address);
        config.framing = FramingChoice::Fixed(Framing::Plain);
        // The tests count frames, so each message has a frame of its own.
        config.coalesce_below = 0;
        adjust(&mut config);
        let mut core = Core::new(config, Time(0));
        let endpoint = core.add_endpoint(Name::new("main").unwrap(), 0).unwrap();
        let notes = RecordingTransport::new(address);
        let engine = Engine::new(core, notes.caps.pool.clone());
        Host { engine, notes, endpoint, events: Vec::new() }
    }

    pub fn turn(&mut self, now: Time) -> am_engine::Turn {
        self.notes.calls.clear();
        let events = &mut self.events;
        self.engine.turn(|| now, &mut self.notes, &mut |event| events.push(event))
    }

    pub fn request(&mut self, to: FlowId, number: u64) {
        let frame = self.notes.caps.pool.take().unwrap();
        let write = |place: &mut [u8]| place.copy_from_slice(&number.to_be_bytes());
        self.engine.core_mut().send(to, Class::Request, 0, 1, frame, 8, write).unwrap();
    }
}

pub const MS: u64 = 1_000_000;

/// Two hosts with a flow between them, the flow, and the time when it was open.
pub fn connected() -> (Host, Host, FlowId, Time) {
    connected_to(|_| ())
}

/// As [`connected`], with other settings of the second host.
pub fn connected_to(adjust: impl FnOnce(&mut Config)) -> (Host, Host, FlowId, Time) {
    let (mut alpha, mut beta) = (Host::new(1, "alpha"), Host::with(2, "beta", adjust));
    let name = |text| Name::new(text).unwrap();
    let (core, from) = (alpha.engine.core_mut(), alpha.endpoint);
    let flow = core.connect(Time(0), from, (name("beta"), name("main"), 0), true).unwrap();
    let mut now = Time(0);
    while !matches!(alpha.engine.core().state(flow), FlowState::Open { .. }) {
        now = Time(now.0 + MS);
        assert!(now.0 < 1000 * MS, "not connected in a second");
        exchange(&mut alpha, &mut beta, now);
    }
    exchange(&mut alpha, &mut beta, now);
    (alpha, beta, flow, now)
}

pub fn exchange(alpha: &mut Host, beta: &mut Host, now: Time) {
    alpha.turn(now);
    beta.notes.take_from(&mut alpha.notes);
    beta.turn(now);
    alpha.notes.take_from(&mut beta.notes);
}

pub fn extracted(host: &mut Host) -> Vec<u64> {
    let endpoint = host.endpoint;
    std::iter::from_fn(|| host.engine.core_mut().poll_deliver(endpoint)).map(|message| message.words().at(0)).collect()
}
