//! A forger on the segment. It changes fields of real frames and sends them between those of honest nodes, by a script
//! of bytes. Nothing panics, memory stays bounded, and a connection whose own frames are left alone gets each of its
//! messages through, once.
//!
//! An ordinary test and the fuzz target `core` include this module, and write the script.

mod script;

use std::time::Duration;

use am_proto::{Config, EndpointId, Event, FlowId, FlowState, FramingChoice};
use am_wire::frame::{self, LinkAddresses, ParsedFrame};
use am_wire::{Address, Buffer, Class, EtherType, Flow, Framing, Header, Kind};
use script::Script;

use crate::harness::{Buf, Net};

const ALPHA: usize = 0;
/// The forger attacks this node, besides alpha.
const BETA: usize = 1;
/// This node talks to beta. Its frames are not forged.
const GAMMA: usize = 2;

/// The most frames that a node may hold for received messages, and as many for sent ones.
const FRAMES: usize = 16;

/// The most recent real frames, which the forger remembers.
const REAL: usize = 64;

const KINDS: [Kind; 9] = [
    Kind::Request,
    Kind::Reply,
    Kind::Ack,
    Kind::Control,
    Kind::Reject,
    Kind::Coalesced(Class::Request),
    Kind::Coalesced(Class::Reply),
    Kind::Put,
    Kind::Get,
];

struct Play {
    net: Net,
    ends: [EndpointId; 3],
    /// Alpha's flow to beta, and gamma's.
    alphas: FlowId,
    gammas: FlowId,
    /// Beta's id of gamma's flow.
    honest: Flow,
    /// By number: whether gamma's request arrived.
    arrived: Vec<bool>,
    /// Set-up frames were forged: flows may end.
    is_set_up_forged: bool,
}

/// Play the script from start to end.
pub(crate) fn play(script: &[u8]) {
    let mut script = Script(script);
    let mut play = Play::new(script.byte());
    while !script.is_over() {
        play.step(&mut script);
        play.check_memory();
    }
    play.finish();
}

fn config(net: &mut Net, named: &str, framing: FramingChoice) -> Config {
    let mut config = net.config(net.nodes.len(), named);
    (config.receive_frames, config.send_frames, config.window) = (FRAMES, FRAMES, 8);
    config.framing = framing;
    config
}

impl Play {
    fn new(how: u8) -> Play {
        let framing = Framing::ALL.get(how as usize % 4).copied().map_or(FramingChoice::Auto, FramingChoice::Fixed);
        let mut net = Net::new(u64::from(how / 4));
        net.log = Some(Vec::new());
        let ends = ["alpha", "beta", "gamma"].map(|named| {
            let config = config(&mut net, named, framing);
            net.start(config).1
        });
        let alphas = net.connect(ALPHA, ends[ALPHA], "beta");
        let gammas = net.connect(GAMMA, ends[GAMMA], "beta");
        let is_gammas = |event: Event| match event {
            Event::Accepted(_, id, (node, _)) if node.as_str() == "gamma" => Some(id.flow()),
            _ => None,
        };
        let honest = net.events(BETA).into_iter().find_map(is_gammas).expect("gamma's flow was accepted");
        Play { net, ends, alphas, gammas, honest, arrived: Vec::new(), is_set_up_forged: false }
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 12 {
            0 => self.alpha_sends(script),
            1 => self.alpha_puts(script),
            2 => self.gamma_sends(),
            3..7 => {
                if let Some((at, frame)) = self.forged(script) {
                    self.hand_over(at, &frame);
                }
            }
            7 => {
                if let Some((at, frame)) = self.damaged(script) {
                    self.hand_over(at, &frame);
                }
            }
            8 => self.take(ALPHA, script.byte() & 1 == 1),
            9 => self.take(BETA, script.byte() & 1 == 1),
            10 => self.net.idle(Duration::from_micros(8 * u64::from(script.byte()))),
            _ => self.change(script),
        }
        let real = self.net.log.as_mut().expect("frames are remembered");
        let old = real.len().saturating_sub(REAL);
        real.drain(..old);
    }

    fn alpha_sends(&mut self, script: &mut Script<'_>) {
        let payload = vec![0xa1; script.byte() as usize];
        // There may be no credit, or no flow any more.
        let _ = self.net.send(ALPHA, self.alphas, Class::Request, 0, &payload);
    }

    fn alpha_puts(&mut self, script: &mut Script<'_>) {
        let (kind, body) = (script.choose(&[Kind::Put, Kind::Get]), script.byte() as usize);
        let write = |place: &mut [u8]| place.fill(0);
        let _ = self.net.core(ALPHA).send(self.alphas, kind, 0, 0, Buf::fresh(2048), body, write);
    }

    fn gamma_sends(&mut self) {
        let number = self.arrived.len() as u64;
        if self.net.send(GAMMA, self.gammas, Class::Request, number, &content(number)).is_ok() {
            self.arrived.push(false);
        }
    }

    /// Open or close a flow, or change a tag.
    fn change(&mut self, script: &mut Script<'_>) {
        let (now, at) = (self.net.now, script.choose(&[ALPHA, BETA]));
        match script.byte() % 8 {
            0 => {
                let to = crate::harness::name(script.choose(&["beta", "gamma", "nobody"]));
                let _ = self.net.core(ALPHA).connect(now, self.ends[ALPHA], (to, crate::harness::name("app"), 7), true);
            }
            1 => self.net.core(ALPHA).close(self.alphas),
            2 if at == ALPHA => self.net.core(at).set_tag(self.ends[at], u64::from(script.byte())),
            _ => self.net.core(at).on_timeout(now),
        }
    }

    /// A real frame that the forger has seen.
    fn real(&self, script: &mut Script<'_>) -> Option<&(usize, Vec<u8>)> {
        let real = self.net.log.as_ref()?;
        real.get(script.byte() as usize % real.len().max(1)).filter(|(at, _)| *at != GAMMA)
    }

    /// A real frame with some fields of its header, or its body, changed.
    fn forged(&self, script: &mut Script<'_>) -> Option<(usize, Vec<u8>)> {
        let (at, real) = self.real(script)?;
        let parsed = frame::parse(real, EtherType::DEFAULT).expect("a real frame");
        let (what, mut header) = (script.byte(), parsed.header);
        change_header(what, &mut header, script);
        let mut body = [parsed.words, parsed.payload].concat();
        if what & 0x40 != 0 {
            change_body(&mut body, script);
        }
        let framing = if what & 0x80 == 0 { parsed.framing } else { script.choose(&Framing::ALL) };
        let own = |at: usize| Address([0x02, 0, 0, 0, 1, at as u8]);
        let from = if framing == parsed.framing { parsed.source } else { own(script.byte() as usize % 4) };
        let link = LinkAddresses { to: own(*at), from, ethertype: EtherType::DEFAULT };
        let mut frame = vec![0; frame::length(framing, body.len())];
        frame::body(&mut frame, framing, body.len()).ok()?.copy_from_slice(&body);
        frame::emit(&mut frame, framing, &link, &header, body.len(), parsed.piggyback.as_ref()).ok()?;
        Some((*at, frame))
    }

    /// A real frame with some bytes changed.
    fn damaged(&self, script: &mut Script<'_>) -> Option<(usize, Vec<u8>)> {
        let (at, mut frame) = self.real(script)?.clone();
        change_body(&mut frame, script);
        Some((at, frame))
    }

    /// Frames that name gamma's flow are left out: they would be believed.
    fn hand_over(&mut self, at: usize, bytes: &[u8]) {
        let parsed = frame::parse(bytes, EtherType::DEFAULT).ok();
        if parsed.is_some_and(|parsed| (at, parsed.header.flow) == (BETA, self.honest)) {
            return;
        }
        self.is_set_up_forged |= parsed.is_some_and(|parsed| parsed.header.kind == Kind::Control);
        let is_believable = parsed.is_some_and(|parsed| self.is_believable(at, &parsed));
        let before = self.dropped(at);
        self.net.core(at).on_frame(Buf::of(bytes));
        assert!(is_believable || self.dropped(at) == before + 1, "a forged frame was accepted: {parsed:?}");
    }

    /// A set-up frame, or one with a flow id and nonce that the node has given out.
    fn is_believable(&self, at: usize, forged: &ParsedFrame<'_>) -> bool {
        let name = |parsed: &ParsedFrame<'_>| (parsed.header.flow, parsed.header.nonce);
        let is_same = |(to, real): &(usize, Vec<u8>)| {
            *to == at && frame::parse(real, EtherType::DEFAULT).is_ok_and(|real| name(&real) == name(forged))
        };
        forged.header.kind == Kind::Control
            || forged.framing == Framing::Bare
            || self.net.log.iter().flatten().any(is_same)
    }

    fn dropped(&mut self, at: usize) -> u64 {
        self.net.core(at).counters().dropped.iter().sum()
    }

    /// Run the handlers: take all waiting messages, and answer them if `answers`.
    fn take(&mut self, at: usize, answers: bool) {
        let end = self.ends[at];
        while let Some(got) = self.net.core(at).poll_deliver(end) {
            let (word, payload) = (got.words().at(0), got.payload().to_vec());
            if (at, got.class, got.flow.flow()) == (BETA, Class::Request, self.honest) {
                self.arrives(word, &payload);
            }
            if got.class == Class::Request
                && !(answers && self.net.send(at, got.flow, Class::Reply, word, &payload).is_ok())
            {
                self.net.core(at).decline_reply(got.flow);
            }
            self.net.core(at).release(got.flow, got.class, 1);
        }
        let core = self.net.core(at);
        while let Some(part) = core.poll_bulk(end) {
            assert!(part.payload().len() <= part.frame.bytes().len());
            core.release(part.flow, part.class, 1);
        }
        while core.poll_returned(end).is_some() {}
        while core.poll_event().is_some() || core.poll_command().is_some() {}
    }

    fn arrives(&mut self, number: u64, payload: &[u8]) {
        if self.is_set_up_forged {
            return;
        }
        assert!(!self.arrived[number as usize], "{number} twice");
        assert_eq!(payload, content(number), "{number}");
        self.arrived[number as usize] = true;
    }

    /// No node holds more frames than it may.
    fn check_memory(&mut self) {
        for at in [ALPHA, BETA] {
            let (core, end) = (self.net.core(at), self.ends[at]);
            while core.poll_returned(end).is_some() {}
            let mut frames = 0;
            core.frames(&mut |_| frames += 1);
            assert!(frames <= 2 * FRAMES, "{frames} frames");
        }
    }

    /// The forger is gone: gamma's messages arrive.
    fn finish(&mut self) {
        for _ in 0..1000 {
            [ALPHA, BETA, GAMMA].into_iter().for_each(|at| self.take(at, true));
            let outstanding = self.net.core(GAMMA).outstanding(self.gammas, Class::Request);
            if self.is_set_up_forged || (outstanding == 0 && self.arrived.iter().all(|arrived| *arrived)) {
                return;
            }
            self.net.idle(Duration::from_millis(1));
        }
        let state: FlowState = self.net.core(GAMMA).state(self.gammas);
        panic!("gamma's messages do not arrive: {:?}, {state:?}", self.arrived);
    }
}

fn content(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize % 40]
}

fn change_header(what: u8, header: &mut Header, script: &mut Script<'_>) {
    if what & 1 != 0 {
        header.kind = script.choose(&KINDS);
    }
    if what & 2 != 0 {
        header.seq = header.seq.wrapping_add(script.byte() as i8 as u32);
    }
    if what & 4 != 0 {
        header.seq ^= 1 << (script.byte() % 32);
    }
    if what & 8 != 0 {
        header.nonce ^= script.short();
        header.flow = Flow::new(script.short() % Flow::COUNT as u16).expect("14 bits");
    }
    if what & 0x10 != 0 {
        header.words = script.byte() % 6;
    }
    if what & 0x20 != 0 {
        header.handler = script.byte();
    }
    if header.kind == Kind::Control {
        header.flow = Flow::NODE;
    }
}

/// Change some bytes, cut a part out, or append something.
fn change_body(body: &mut Vec<u8>, script: &mut Script<'_>) {
    for _ in 0..script.byte() % 8 {
        let (at, byte) = (script.short() as usize, script.byte());
        let length = body.len().max(1);
        if let Some(place) = body.get_mut(at % length) {
            *place = byte;
        }
    }
    match script.byte() % 4 {
        0 => body.truncate(script.byte() as usize),
        1 => {
            let more = script.byte() as usize;
            body.extend(script.bytes(more));
        }
        _ => {}
    }
    body.truncate(1500);
}
