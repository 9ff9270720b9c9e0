//! An end of a link whose peer can die without its process, which a test does not survive: nothing gives signs of life for
//! the peer from then on.

use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::Rc;

use am_api::{Address, Transport};
use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError, PeerInfo};
use am_wire::control::{Beacon, Control, Purpose};
use am_wire::{Buffer, EtherType, frame};

type IsDead = Rc<Cell<bool>>;

thread_local! {
    static PEER_IS_DEAD: RefCell<IsDead> = RefCell::default();
}

/// Whether nothing gives signs of life for a peer from now on.
pub fn set_dead(is_dead: bool) {
    PEER_IS_DEAD.with_borrow(|shared| shared.set(is_dead));
}

/// A node stops as if its power was cut: its peers are not notified, and nothing says that it lives.
pub fn dies<T>(node: T) {
    set_dead(true);
    mem::forget(node);
}

/// The end of a link; see [`fated`].
pub struct Fated {
    inner: Box<dyn Transport>,
    is_dead: IsDead,
}

/// An end of a link on which a peer may die.
pub fn fated(inner: Box<dyn Transport>) -> Box<dyn Transport> {
    let is_dead = PEER_IS_DEAD.with_borrow(Rc::clone);
    is_dead.set(false);
    Box::new(Fated { inner, is_dead })
}

fn is_heartbeat(bytes: &[u8]) -> bool {
    let parsed = frame::parse(bytes, EtherType::DEFAULT).ok();
    let control = parsed.and_then(|parsed| Control::parse(parsed.payload).ok());
    matches!(control, Some(Control::Beacon(Beacon { purpose: Purpose::Heartbeat, .. })))
}

impl Transport for Fated {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        if !self.is_dead.get() {
            return self.inner.receive(budget, each);
        }
        let mut count = 0;
        self.inner.receive(budget, &mut |frame| {
            if !is_heartbeat(frame.bytes()) {
                count += 1;
                each(frame);
            }
        });
        count
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.inner.send(to, frame)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.inner.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let is_dead = self.is_dead.get();
        self.inner.poll_notices(&mut |notice| match notice {
            Notice::PeerAlive(_) if is_dead => (),
            other => each(other),
        });
    }

    fn peer(&self, at: Address) -> PeerInfo {
        self.inner.peer(at)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}
