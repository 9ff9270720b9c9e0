//! What a turn does, seen from a transport that notes every call.

use std::collections::VecDeque;
use std::time::Duration;

use engine::{BURST, Engine};
use proto::{Config, Core, EndpointId, Event, FlowId, FlowState, FramingChoice, Time};
use ring::{Frame, Layout, Pool};
use transport::{Caps, Transport};
use wire::control::{Incarnation, Name, NodeId};
use wire::{Address, Buffer, Class, Flow, Framing};

/// Notes what it is asked to do; takes as many frames a turn as it has room for.
struct Notes {
    caps: Caps,
    arriving: VecDeque<Frame>,
    left: Vec<Frame>,
    room: usize,
    calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Receive(usize),
    Send,
    Full,
    Steer(Flow, bool),
    Flush,
}

impl Notes {
    fn new(address: Address) -> Notes {
        let pool = Pool::heap(Layout { frames: 512, stride: 2048, headroom: 64 }).unwrap();
        let caps = Caps {
            name: "notes".into(),
            mode: "memory".into(),
            address,
            max_frame: 1514,
            reliable: true,
            ordered: true,
            pool,
            wake: None,
        };
        Notes { caps, arriving: VecDeque::new(), left: Vec::new(), room: usize::MAX, calls: Vec::new() }
    }

    /// What left there arrives here.
    fn take_from(&mut self, peer: &mut Notes) {
        for frame in peer.left.drain(..) {
            self.arriving.push_back(self.caps.pool.copy(frame.bytes()).expect("a frame"));
        }
    }
}

impl Transport for Notes {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let count = budget.min(self.arriving.len());
        self.calls.push(Call::Receive(count));
        self.arriving.drain(..count).for_each(each);
        count
    }

    fn send(&mut self, _to: Address, frame: Frame) -> Result<(), Frame> {
        if self.room == 0 {
            self.calls.push(Call::Full);
            return Err(frame);
        }
        self.room -= 1;
        self.calls.push(Call::Send);
        self.left.push(frame);
        Ok(())
    }

    fn flush(&mut self) {
        self.calls.push(Call::Flush);
    }

    fn steer(&mut self, flow: Flow, open: bool) {
        self.calls.push(Call::Steer(flow, open));
    }

    fn counters(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}

struct Host {
    engine: Engine,
    notes: Notes,
    endpoint: EndpointId,
    events: Vec<Event>,
}

impl Host {
    fn new(number: u8, name: &str) -> Host {
        let address = Address([2, 0, 0, 0, 0, number]);
        let mut config = Config::new(NodeId(number as u64), Incarnation(1), Name::new(name).unwrap(), address);
        config.framing = FramingChoice::Fixed(Framing::Plain);
        let mut core = Core::new(config, Time(0));
        let endpoint = core.endpoint(Name::new("main").unwrap(), 0).unwrap();
        let notes = Notes::new(address);
        let engine = Engine::new(core, notes.caps.pool.clone());
        Host { engine, notes, endpoint, events: Vec::new() }
    }

    fn turn(&mut self, now: Time) -> engine::Turn {
        self.notes.calls.clear();
        let events = &mut self.events;
        self.engine.turn(|| now, &mut self.notes, &mut |event| events.push(event))
    }

    fn request(&mut self, to: FlowId, number: u64) {
        let frame = self.notes.caps.pool.take().unwrap();
        let write = |place: &mut [u8]| place.copy_from_slice(&number.to_be_bytes());
        self.engine.core_mut().send(to, Class::Request, 0, 1, frame, 8, write).unwrap();
    }
}

const MS: u64 = 1_000_000;

/// Two hosts with a flow between them, and the time when it was open.
fn connected() -> (Host, Host, FlowId, Time) {
    let (mut alpha, mut beta) = (Host::new(1, "alpha"), Host::new(2, "beta"));
    let name = |text| Name::new(text).unwrap();
    let (core, from) = (alpha.engine.core_mut(), alpha.endpoint);
    let flow = core.connect(Time(0), from, name("beta"), name("main"), 0).unwrap();
    let mut now = Time(0);
    while !matches!(alpha.engine.core().state(flow), FlowState::Open { .. }) {
        now = Time(now.0 + MS);
        assert!(now.0 < 1000 * MS, "not connected in a second");
        exchange(&mut alpha, &mut beta, now);
    }
    exchange(&mut alpha, &mut beta, now);
    (alpha, beta, flow, now)
}

fn exchange(alpha: &mut Host, beta: &mut Host, now: Time) {
    alpha.turn(now);
    beta.notes.take_from(&mut alpha.notes);
    beta.turn(now);
    alpha.notes.take_from(&mut beta.notes);
}

fn extracted(host: &mut Host) -> Vec<u64> {
    let endpoint = host.endpoint;
    std::iter::from_fn(|| host.engine.core_mut().poll_deliver(endpoint)).map(|message| message.words().at(0)).collect()
}

#[test]
fn a_turn_has_one_doorbell_and_it_comes_last() {
    let (mut alpha, _, flow, now) = connected();
    (0..5).for_each(|n| alpha.request(flow, n));
    let turn = alpha.turn(now);
    assert_eq!(turn.sent, 5);
    assert_eq!(alpha.notes.calls.iter().filter(|call| **call == Call::Flush).count(), 1);
    assert_eq!(alpha.notes.calls.last(), Some(&Call::Flush));
}

#[test]
fn an_idle_turn_rings_too() {
    let (mut alpha, _, _, now) = connected();
    alpha.turn(now);
    assert!(alpha.turn(now).is_idle());
    assert_eq!(alpha.notes.calls, [Call::Receive(0), Call::Flush]);
}

#[test]
fn what_a_full_transport_gives_back_goes_first_and_nothing_is_lost() {
    let (mut alpha, mut beta, flow, now) = connected();
    alpha.turn(now);
    (0..10).for_each(|n| alpha.request(flow, n));
    for room in [3, 0, 2, 5] {
        alpha.notes.room = room;
        assert_eq!(alpha.turn(now).sent, room);
        assert_eq!(alpha.engine.sleep_until() <= now, room < 5, "full: the next turn is due at once");
    }
    beta.notes.take_from(&mut alpha.notes);
    beta.turn(now);
    assert_eq!(extracted(&mut beta), (0..10).collect::<Vec<_>>());
}

#[test]
fn bursts_are_bounded_in_both_directions() {
    let (mut alpha, mut beta, flow, now) = connected();
    (0..2 * BURST as u64).for_each(|n| alpha.request(flow, n));
    assert_eq!(alpha.turn(now).sent, BURST);
    alpha.turn(now);
    beta.notes.take_from(&mut alpha.notes);
    assert_eq!(beta.turn(now).received, BURST);
    assert_eq!(beta.turn(now).received, BURST);
    assert_eq!(extracted(&mut beta).len(), 2 * BURST);
}

#[test]
fn a_flow_is_steered_before_the_peer_hears_of_it() {
    let (mut alpha, mut beta) = (Host::new(1, "alpha"), Host::new(2, "beta"));
    exchange(&mut alpha, &mut beta, Time(0));
    let name = |text| Name::new(text).unwrap();
    let (core, from) = (alpha.engine.core_mut(), alpha.endpoint);
    let flow = core.connect(Time(MS), from, name("beta"), name("main"), 0).unwrap();
    alpha.turn(Time(MS));
    let steered = alpha.notes.calls.iter().position(|call| *call == Call::Steer(flow.flow(), true));
    let sent = alpha.notes.calls.iter().position(|call| *call == Call::Send);
    assert!(steered.expect("steered") < sent.expect("sent"), "{:?}", alpha.notes.calls);
}

#[test]
fn what_is_due_happens_in_a_turn() {
    let (mut alpha, ..) = connected();
    let due = alpha.engine.core().config().beacon;
    let before = alpha.engine.core().counters().control_sent;
    let turn = alpha.turn(Time(0) + due + Duration::from_secs(1));
    assert_eq!(turn.sent, 1, "a beacon");
    assert_eq!(alpha.engine.core().counters().control_sent, before + 1);
}

#[test]
fn who_shuts_down_is_heard_at_once() {
    let (mut alpha, mut beta, flow, now) = connected();
    beta.engine.shut_down(now, &mut beta.notes);
    alpha.notes.take_from(&mut beta.notes);
    alpha.turn(now);
    assert_eq!(alpha.engine.core().state(flow), FlowState::Dead(proto::ReturnReason::Closed));
    assert!(matches!(alpha.events.last(), Some(Event::Ended(_, ended, _)) if *ended == flow), "{:?}", alpha.events);
}
