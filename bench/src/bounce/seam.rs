//! Between node and interface: what is not told, and when what passes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_transport::{Caps, Command, IntroduceError, Notice, Transport};
use am_wire::frame::parse;
use am_wire::{Address, Buffer, EtherType, Kind};

/// What is not back after so long does not come back.
const LONG: Duration = Duration::from_millis(200);

/// A request that has left.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// What its reject will name; of few requests of few flows hardly two are the same.
    number: u32,
    at: Instant,
    /// Nothing else was on its way.
    alone: bool,
}

/// What has passed.
#[derive(Debug, Default)]
pub(super) struct Seen {
    left: RefCell<Vec<Left>>,
    /// Any reject came.
    pub(super) any: Cell<bool>,
    /// One that was alone came back: when it had left.
    pub(super) back: Cell<Option<Instant>>,
}

impl Seen {
    /// What was taken in does not come back: it keeps nothing from being alone.
    pub(super) fn forget(&self) {
        self.left.borrow_mut().clear();
        self.back.set(None);
    }

    fn leaves(&self, number: u32) {
        let (mut left, at) = (self.left.borrow_mut(), Instant::now());
        left.retain(|other| at - other.at < LONG);
        match left.iter_mut().find(|other| other.number == number) {
            // Which of the two comes back nobody will know.
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

/// A transport that is looked at.
pub(super) struct Seam {
    inner: Box<dyn Transport>,
    seen: Rc<Seen>,
    /// Its program is not told what it needs for bouncing.
    untold: bool,
}

impl Seam {
    pub(super) fn new(inner: Box<dyn Transport>, untold: bool) -> Seam {
        Seam { inner, seen: Rc::default(), untold }
    }

    pub(super) fn seen(&self) -> Rc<Seen> {
        Rc::clone(&self.seen)
    }
}

/// The number that the frame names, if it is of this kind.
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

    fn control(&mut self, command: Command<'_>) -> Result<(), IntroduceError> {
        match command {
            Command::RejectTemplate { .. } | Command::RxFull(_) if self.untold => Ok(()),
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
