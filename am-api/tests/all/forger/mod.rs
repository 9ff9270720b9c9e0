//! A peer that says anything about bulk transfers, as a script of bytes says:
//! what it may not reach it does not reach, what it may is written exactly
//! where it said, and each transfer of ours ends at most once.
//!
//! Included by an ordinary test and by the fuzz target `transfers`, which write the script.

#[path = "../../../../datapath/proto/tests/all/forger/script.rs"]
mod script;

use std::collections::HashSet;
use std::time::Duration;

use am_api::{
    Clock, Connection, Endpoint, Framing, Incarnation, ManualClock, Node, Region, RegionId, Rights, TransferId,
    TransferKind,
};
use am_engine::Engine;
use am_proto::{Config, Core, EndpointId, Event, FlowId, FramingChoice, Time};
use am_transport::loopback::{Loopback, LoopbackOptions, wire_with};
use am_wire::Kind;
use am_wire::bulk::{Notice, NoticeKind, Segment};
use am_wire::control::{Name, NodeId};
use script::Script;

/// Bytes of each region.
const REGION: usize = 256;

/// In the numbers of transfers that answer a get.
const ANSWER: u32 = 1 << 31;

/// Where numbers are near the edge of something.
const EDGES: [u64; 12] = [0, 1, 2, 100, 200, 255, 256, 257, u32::MAX as u64, 1 << 32, u64::MAX - 255, u64::MAX];

/// The peer: the protocol without the layer that keeps to the rules.
struct Forger {
    engine: Engine,
    transport: Loopback,
    end: EndpointId,
    flow: Option<FlowId>,
    /// What the honest side wants of it.
    gets: Vec<Notice>,
}

struct Play {
    forger: Forger,
    clock: ManualClock,
    now: Time,
    endpoint: Endpoint<Vec<(TransferKind, TransferId)>>,
    over: Vec<(TransferKind, TransferId)>,
    to: Connection,
    /// May be written, may be read, is for what we get.
    open: Region,
    closed: Region,
    into: Region,
    /// What must be in the first.
    expected: Vec<u8>,
    /// Which bytes of the last we have asked to be written.
    asked: [bool; REGION],
}

/// What the script says, from the start to the end.
pub(crate) fn play(script: &[u8]) {
    let mut script = Script(script);
    let mut play = Play::new();
    while !script.is_over() {
        play.step(&mut script);
        play.check();
    }
    play.finish();
}

impl Forger {
    fn open(transport: Loopback) -> Forger {
        let name = |text| Name::new(text).expect("a good name");
        let caps = am_transport::Transport::caps(&transport);
        let mut config = Config::new(NodeId(9), Incarnation(1), name("forger"), caps.address);
        config.framing = FramingChoice::Fixed(Framing::Plain);
        (config.receive_frames, config.send_frames, config.max_frame) = (32, 32, caps.max_frame);
        let mut core = Core::new(config, Time(0));
        let end = core.add_endpoint(name("main"), 0).expect("the first");
        let engine = Engine::new(core, caps.pool.clone());
        Forger { engine, transport, end, flow: None, gets: Vec::new() }
    }

    fn turn(&mut self, now: Time) {
        let flow = &mut self.flow;
        self.engine.turn(|| now, &mut self.transport, &mut |event| {
            if let Event::Accepted(_, id, _) = event {
                *flow = Some(id);
            }
        });
        let (core, end) = (self.engine.core_mut(), self.end);
        while let Some(part) = core.poll_bulk(end) {
            self.gets.extend(Notice::parse(part.payload()).filter(|notice| notice.what == NoticeKind::Get));
            core.release(part.flow, part.class, 1);
        }
    }

    /// Says this, if there is credit to say it.
    fn say(&mut self, kind: Kind, body: &[u8]) -> bool {
        let (Some(flow), Some(frame)) = (self.flow, self.engine.pool().take()) else { return false };
        let write = |place: &mut [u8]| place.copy_from_slice(body);
        self.engine.core_mut().send(flow, kind, 0, 0, frame, body.len(), write).is_ok()
    }
}

impl Play {
    fn new() -> Play {
        let options = LoopbackOptions { frames: 128, queue: 64, ..LoopbackOptions::default() };
        let mut plugs = wire_with(2, options).into_iter().map(|plug| plug.open().expect("memory"));
        let (left, right) = (plugs.next().expect("one end"), plugs.next().expect("the other"));
        let (clock, hand) = Clock::manual();
        let builder = Node::builder("honest").framing(Framing::Plain).clock(clock, Incarnation(1));
        let node = builder.receive_frames(32).send_frames(32).open_on(Box::new(left)).expect("a node");
        let mut endpoint = node.endpoint::<Vec<_>>("main").expect("an endpoint");
        endpoint.on_transfer(|over: &mut Vec<_>, transfer| over.push((transfer.kind, transfer.id)));
        let to = endpoint.connect("forger", "main").expect("a connection asked for");
        let [open, closed, into] =
            [Rights::WRITE, Rights::READ, Rights::NONE].map(|rights| endpoint.register(vec![0; REGION], rights));
        let (forger, expected, asked) = (Forger::open(right), vec![0; REGION], [false; REGION]);
        let (over, now) = (Vec::new(), Time(0));
        let mut play = Play { forger, clock: hand, now, endpoint, over, to, open, closed, into, expected, asked };
        while !play.endpoint.is_open(to) {
            play.turn();
        }
        play
    }

    fn turn(&mut self) {
        self.now = self.now + Duration::from_micros(50);
        self.clock.set(self.now);
        self.endpoint.poll(&mut self.over);
        self.forger.turn(self.now);
    }

    /// Until all that was said is understood.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.turn();
            let core = self.forger.engine.core();
            if self.forger.flow.is_none_or(|flow| !core.has_unacknowledged(flow)) {
                return;
            }
        }
        panic!("what the forger says is not taken");
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 8 {
            0..3 => self.segment(script),
            3 => self.notice(script),
            4 => self.get(script),
            5 => _ = self.endpoint.put(self.to, RegionId(script.byte().into()), 0, vec![1; script.byte() as usize]),
            6 => {
                let (kind, length) = (script.choose(&[Kind::Put, Kind::Get]), script.byte() as usize);
                let body = script.bytes(length);
                self.forge(kind, &body);
            }
            _ => self.settle(),
        }
    }

    fn number(script: &mut Script<'_>) -> u64 {
        match script.byte() {
            byte @ 0..128 => u64::from(byte) * 2,
            byte => EDGES[byte as usize % EDGES.len()].wrapping_add(u64::from(script.byte() % 8)),
        }
    }

    fn region(&self, script: &mut Script<'_>) -> u32 {
        let known = [&self.open, &self.closed, &self.into].map(|region| region.id().0);
        let other = u32::from(script.short());
        script.choose(&[known[0], known[0], known[1], known[2], other])
    }

    /// Part of a transfer, or of the answer to one of our gets.
    fn segment(&mut self, script: &mut Script<'_>) {
        let (start, total, at) = (Self::number(script), Self::number(script), Self::number(script));
        let mut segment = Segment { region: self.region(script), transfer: script.byte().into(), start, total, at };
        let how = script.byte();
        if how & 1 != 0 {
            segment.transfer |= ANSWER;
        }
        if let Some(get) = self.forger.gets.get(script.byte() as usize).filter(|_| how & 2 != 0) {
            segment = Segment { transfer: get.transfer, region: get.into, ..segment };
            if how & 4 != 0 {
                (segment.start, segment.total) = (get.into_offset, get.length);
            }
        }
        let data = vec![script.byte(); script.byte() as usize];
        self.forge(Kind::Put, &[&segment.to_bytes()[..], &data].concat());
    }

    fn notice(&mut self, script: &mut Script<'_>) {
        let (what, transfer) = (script.choose(&NoticeKind::ALL), script.byte().into());
        let (region, into) = (self.region(script), script.short().into());
        let (offset, into_offset, length) = (Self::number(script), Self::number(script), Self::number(script));
        let mut notice = Notice { what, transfer, region, into, offset, into_offset, length };
        if let Some(get) = self.forger.gets.get(script.byte() as usize) {
            notice.transfer = get.transfer;
        }
        self.forge(Kind::Get, &notice.to_bytes());
    }

    /// We want something of the forger.
    fn get(&mut self, script: &mut Script<'_>) {
        let (offset, length) = (script.byte() as usize, script.byte() as usize);
        let region = RegionId(script.byte().into());
        let asked = self.endpoint.get(self.to, region, 0, length as u64, &self.into, offset as u64);
        assert_eq!(asked.is_ok(), offset + length <= REGION, "{offset}, {length} bytes: {asked:?}");
        if asked.is_ok() {
            self.asked[offset..offset + length].fill(true);
        }
        self.settle();
    }

    /// The forger says it, and what it must do is done to what is expected.
    fn forge(&mut self, kind: Kind, body: &[u8]) {
        self.settle();
        if !self.forger.say(kind, body) {
            return;
        }
        self.settle();
        let Some((segment, data)) = Segment::parse(body).filter(|_| kind == Kind::Put) else { return };
        let inside = segment.start.checked_add(segment.total).is_some_and(|end| end <= REGION as u64);
        if segment.region == self.open.id().0 && segment.transfer & ANSWER == 0 && inside {
            self.expected[(segment.start + segment.at) as usize..][..data.len()].copy_from_slice(data);
        }
    }

    fn check(&self) {
        assert_eq!(self.open.bytes()[..], self.expected[..]);
        assert!(self.closed.bytes().iter().all(|&byte| byte == 0), "written without the right to");
        let written = self.into.bytes();
        assert!(written.iter().zip(self.asked).all(|(&byte, asked)| asked || byte == 0), "not asked for");
    }

    fn finish(&mut self) {
        self.settle();
        self.check();
        let ours = self.over.iter().filter(|(kind, _)| matches!(kind, TransferKind::Put | TransferKind::Get));
        let mut ended = HashSet::new();
        assert!(ours.into_iter().all(|(_, id)| ended.insert(*id)), "a transfer ended twice: {:?}", self.over);
    }
}
