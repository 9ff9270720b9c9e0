//! A transport that dies, and may be opened again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use am_api::Transport;
use am_ring::Frame;
use am_transport::{Caps, IntroduceError};
use am_wire::{Address, Flow};

/// Whether it lives.
pub(crate) type Hand = Rc<Cell<bool>>;

pub(crate) struct Mortal {
    name: String,
    inner: Option<Box<dyn Transport>>,
    caps: Caps,
    hand: Hand,
    /// What it has been told, for the next that is opened.
    flows: BTreeMap<u16, (Flow, bool)>,
    places: Vec<String>,
}

fn open(name: &str) -> Box<dyn Transport> {
    am_api::transports::open(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Without what would keep its socket open.
fn caps(of: &dyn Transport) -> Caps {
    Caps { wake: None, ..of.caps().clone() }
}

impl Mortal {
    pub(crate) fn open(name: &str) -> (Mortal, Hand) {
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
        self.flows.values().for_each(|(flow, open)| inner.steer(*flow, *open));
        self.places.iter().for_each(|place| inner.introduce(place).expect("as before"));
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

    fn send(&mut self, to: Address, frame: Frame) -> Result<(), Frame> {
        self.inner.as_mut().map_or(Ok(()), |inner| inner.send(to, frame))
    }

    fn flush(&mut self) {
        if let Some(inner) = &mut self.inner {
            inner.flush();
        }
    }

    fn steer(&mut self, flow: Flow, open: bool) {
        self.flows.insert(flow.id(), (flow, open));
        if let Some(inner) = &mut self.inner {
            inner.steer(flow, open);
        }
    }

    fn stray(&mut self) -> Option<Flow> {
        self.inner.as_mut()?.stray()
    }

    fn introduce(&mut self, place: &str) -> Result<(), IntroduceError> {
        self.places.push(place.to_owned());
        self.inner.as_mut().map_or(Ok(()), |inner| inner.introduce(place))
    }

    fn broken(&mut self) -> Option<&str> {
        self.inner.as_mut().map_or(Some("it was closed"), |inner| inner.broken())
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        if let Some(inner) = &self.inner {
            inner.counters(each);
        }
    }
}
