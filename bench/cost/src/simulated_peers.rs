//! Peers that exist as frames only: each announces itself, accepts a connection, and answers keepalives. So one node can have as many
//! peers as flows, and this thread no other node.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use am_api::Transport;
use am_ring::{Frame, Layout, Pool};
use am_transport::{Caps, Command, Notice, PeerAddressError};
use am_wire::control::{Accept, Beacon, Control, FlowParameters, Incarnation, Name, NodeId, Purpose};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Ack, Acks, Address, Buffer, EtherType, Flow, Framing, Framings, Header, Kind, Seq};

use crate::Error;

/// The addresses of these peers count from here.
const FIRST: u64 = 0x0200_0100_0000;
/// How often each announces itself: as often as a node does.
const BEACON: Duration = Duration::from_secs(5);
/// The credits that each grants.
const CREDITS: u16 = 4;
const MAX_FRAME: u32 = 1514;
/// Frames that wait for the node.
const FRAMES: usize = 4096;

/// All simulated peers of a node.
#[derive(Debug)]
pub(crate) struct SimulatedPeers {
    /// What each was offered. `None` until it is asked for a connection.
    offers: Vec<Option<FlowParameters>>,
    /// The node.
    node: Address,
    pool: Pool,
    /// Frames of the node, and for it.
    sent: Vec<(usize, Frame)>,
    arriving: VecDeque<Frame>,
    /// the peer whose beacon is next, and the time since the last one.
    next_beacon: usize,
    since: Duration,
}

impl SimulatedPeers {
    pub(crate) fn new(count: usize, node: Address) -> Result<SimulatedPeers, Error> {
        let pool = Pool::heap(Layout { frames: FRAMES, stride: 256, headroom: 0 })?;
        let (offers, sent, arriving) = (vec![None; count], Vec::with_capacity(FRAMES), VecDeque::with_capacity(FRAMES));
        Ok(SimulatedPeers { offers, node, pool, sent, arriving, next_beacon: 0, since: Duration::ZERO })
    }

    pub(crate) fn name(number: usize) -> String {
        format!("simulated {number}")
    }

    fn address(number: usize) -> Address {
        Address::from_u64(FIRST + number as u64)
    }

    fn number(&self, address: Address) -> Option<usize> {
        usize::try_from(address.to_u64().checked_sub(FIRST)?).ok().filter(|number| *number < self.offers.len())
    }

    /// They answer what arrived.
    pub(crate) fn answer_all(&mut self) {
        let mut sent = std::mem::take(&mut self.sent);
        sent.drain(..).for_each(|(number, frame)| self.on_frame(number, frame.bytes()));
        self.sent = sent;
    }

    /// Time passes: those whose beacon is due announce themselves.
    pub(crate) fn pass(&mut self, time: Duration) {
        if self.offers.is_empty() {
            return;
        }
        self.since += time;
        let pause = BEACON / self.offers.len() as u32;
        while self.since >= pause {
            self.since -= pause;
            self.announce(self.next_beacon);
            self.next_beacon = (self.next_beacon + 1) % self.offers.len();
        }
    }

    pub(crate) fn announce(&mut self, number: usize) {
        let Some(name) = Name::new(&SimulatedPeers::name(number)) else { return };
        let beacon = Beacon {
            node: NodeId::of(&name),
            incarnation: Incarnation(1),
            name,
            address: SimulatedPeers::address(number),
            framings: Framings::ALL,
            max_frame: MAX_FRAME,
            purpose: Purpose::Announce,
        };
        self.answer_control(number, &Control::Beacon(beacon));
    }

    /// A frame of the node for one of them.
    fn on_frame(&mut self, number: usize, frame: &[u8]) {
        let control = frame::parse(frame, EtherType::DEFAULT).ok().filter(|parsed| parsed.header.kind == Kind::Control);
        match control.and_then(|parsed| Control::parse(parsed.payload).ok()) {
            Some(Control::Connect(question)) => {
                self.offers[number] = Some(question.offer);
                let offer = FlowParameters {
                    flow: Flow::new(1).unwrap_or(Flow::NODE),
                    nonce: 0,
                    first: [Seq(0); 2],
                    credits: [CREDITS; 2],
                    max_frame: MAX_FRAME,
                    max_message: MAX_FRAME,
                };
                self.answer_control(number, &Control::Accept(Accept { id: question.id, offer }));
            }
            Some(Control::Keepalive(_)) => self.acknowledge(number),
            _ => (),
        }
    }

    /// Nothing was received on the connection.
    fn acknowledge(&mut self, number: usize) {
        let Some(FlowParameters { flow, nonce, first, .. }) = self.offers[number] else { return };
        let classes = first.map(|accepted| Ack { accepted, limit: accepted.plus(CREDITS.into()), sack: 0 });
        let header = Header { kind: Kind::Ack, flow, nonce, handler: 0, words: 0, seq: 0 };
        self.answer(number, Framing::Split, &header, &Acks { classes }.to_bytes());
    }

    fn answer_control(&mut self, number: usize, control: &Control) {
        let mut body = [0; Control::MAX_BYTES];
        let length = control.emit(&mut body);
        let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
        self.answer(number, Framing::Plain, &header, &body[..length]);
    }

    /// A frame is lost if there is no room for it.
    fn answer(&mut self, number: usize, framing: Framing, header: &Header, body: &[u8]) {
        let Some(mut frame) = self.pool.take() else { return };
        let link =
            LinkAddresses { to: self.node, from: SimulatedPeers::address(number), ethertype: EtherType::DEFAULT };
        let Some(space) = frame.space() else { return };
        let Ok(place) = frame::body(space, framing, body.len()) else { return };
        place.copy_from_slice(body);
        let Ok(length) = frame::emit(space, framing, &link, header, body.len(), None) else { return };
        frame.set_len(length);
        self.arriving.push_back(frame);
    }
}

/// A transport over which the simulated peers are reached, too. Their own work is not counted.
pub(crate) struct WithSimulatedPeers<T> {
    pub(crate) inner: T,
    pub(crate) peers: Rc<RefCell<SimulatedPeers>>,
}

impl<T: Transport> Transport for WithSimulatedPeers<T> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut taken = self.inner.receive(budget, each);
        let mut peers = self.peers.borrow_mut();
        while taken < budget
            && let Some(frame) = peers.arriving.pop_front()
        {
            each(frame);
            taken += 1;
        }
        taken
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        let mut peers = self.peers.borrow_mut();
        let Some(number) = peers.number(to) else { return self.inner.send(to, frame) };
        peers.sent.push((number, frame.share()));
        true
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.inner.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.inner.poll_notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}
