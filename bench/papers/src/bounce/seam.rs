//! A transport wrapper between node and transport: it notes when requests leave and come back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport};
use am_wire::frame::parse;
use am_wire::{Address, Buffer, EtherType, Kind};

/// A request without a reject after this time counts as accepted.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(200);

/// A request that has left.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// The number that its reject will name. Among few requests of few connections, two rarely have the same.
    number: u32,
    at: Instant,
    /// Whether nothing else was in flight.
    alone: bool,
}

/// The frames that passed.
#[derive(Debug, Default)]
pub(super) struct Seen {
    left: RefCell<Vec<Left>>,
    /// Whether any reject arrived.
    pub(super) any: Cell<bool>,
    /// When the request left that came back alone.
    pub(super) back: Cell<Option<Instant>>,
}

impl Seen {
    /// Forget requests in flight. An accepted request does not come back, and must not keep others from being alone.
    pub(super) fn forget(&self) {
        self.left.borrow_mut().clear();
        self.back.set(None);
    }

    fn leaves(&self, number: u32) {
        let (mut left, at) = (self.left.borrow_mut(), Instant::now());
        left.retain(|other| at - other.at < MAX_ROUND_TRIP);
        match left.iter_mut().find(|other| other.number == number) {
            // Either of the two may come back.
            Some(again) => *again = Left { number, at, alone: false },
            None => {
                let alone = left.is_empty();
                left.push(Left { number, at, alone });
            }
        }
    }

    fn returns(&self, number: u32) {
        self.any.set(true);
        let mut left = self.left.borrow_mut();
        if let Some(place) = left.iter().position(|other| other.number == number) {
            let Left { at, alone, .. } = left.swap_remove(place);
            if alone {
                self.back.set(Some(at));
            }
        }
    }
}

/// A transport that records requests and rejects.
pub(super) struct Seam {
    pub(super) inner: Box<dyn Transport>,
    pub(super) seen: Rc<Seen>,
    /// The XDP program does not get what it needs to reject.
    pub(super) without_program: bool,
}

/// The sequence number of a frame of this kind.
fn number(frame: &Frame, kind: Kind) -> Option<u32> {
    let header = parse(frame.bytes(), EtherType::DEFAULT).ok()?.header;
    (header.kind == kind).then_some(header.seq)
}

impl Transport for Seam {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let seen = &self.seen;
        self.inner.receive(budget, &mut |frame| {
            if let Some(number) = number(&frame, Kind::Reject) {
                seen.returns(number);
            }
            each(frame);
        })
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        if let Some(number) = number(frame, Kind::Request) {
            self.seen.leaves(number);
        }
        self.inner.send(to, frame)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            Command::RejectTemplate { .. } | Command::RxFull(_) if self.without_program => Ok(()),
            _ => self.inner.control(command),
        }
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.inner.poll_notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}
