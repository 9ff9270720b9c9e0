//! A transport that dies, and may be opened again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use am_api::Transport;
use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError};
use am_wire::{Address, Flow};

/// Whether it lives.
pub(super) type Hand = Rc<Cell<bool>>;

pub(super) struct Mortal {
    name: String,
    inner: Option<Box<dyn Transport>>,
    caps: Caps,
    hand: Hand,
    /// The commands that the transport has got, to repeat them to the next one that is opened.
    flows: BTreeMap<u16, (Flow, bool)>,
    places: Vec<String>,
}

fn open(name: &str) -> Box<dyn Transport> {
    am_api::transports::open(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Without what would keep its socket open.
fn caps(of: &dyn Transport) -> Caps {
    Caps { wake: None, out_of_band: None, ..of.caps().clone() }
}

impl Mortal {
    pub(super) fn open(name: &str) -> (Mortal, Hand) {
        let (inner, hand) = (open(name), Hand::new(Cell::new(true)));
        let caps = caps(&*inner);
        let (flows, places) = (BTreeMap::new(), vec![]);
        (Mortal { name: name.to_owned(), inner: Some(inner), caps, hand: Rc::clone(&hand), flows, places }, hand)
    }

    /// Do as the hand says.
    fn follow(&mut self) {
        match (self.hand.get(), &self.inner) {
            (false, Some(_)) => self.inner = None,
            (true, None) => self.revive(),
            _ => (),
        }
    }

    fn revive(&mut self) {
        let mut inner = open(&self.name);
        let flows = self.flows.values().map(|&(flow, open)| Command::Steer { flow, open });
        let commands = flows.chain(self.places.iter().map(|place| Command::AddPeer(place)));
        commands.for_each(|command| inner.control(command).expect("as before"));
        self.caps = caps(&*inner);
        self.inner = Some(inner);
    }
}

impl Transport for Mortal {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.follow();
        self.inner.as_mut().map_or(0, |inner| inner.receive(budget, each))
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.inner.as_mut().is_none_or(|inner| inner.send(to, frame))
    }

    fn flush(&mut self) {
        if let Some(inner) = &mut self.inner {
            inner.flush();
        }
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            Command::Steer { flow, open } => _ = self.flows.insert(flow.id(), (flow, open)),
            Command::AddPeer(place) => self.places.push(place.to_owned()),
            _ => (),
        }
        self.inner.as_mut().map_or(Ok(()), |inner| inner.control(command))
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        match &mut self.inner {
            // Several paths are to find by themselves that one of them leads nowhere.
            Some(inner) => inner.poll_notices(&mut |notice| match notice {
                Notice::PeerGone(_) => (),
                other => each(other),
            }),
            None => each(Notice::LinkError("it was closed")),
        }
    }

    fn read_memory(&mut self, of: Address, at: u64, into: &mut [u8]) -> bool {
        self.inner.as_mut().is_some_and(|inner| inner.read_memory(of, at, into))
    }

    fn prefers_reading(&mut self, of: Address, bytes: u64) -> bool {
        self.inner.as_mut().is_some_and(|inner| inner.prefers_reading(of, bytes))
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        if let Some(inner) = &self.inner {
            inner.counters(each);
        }
    }
}
