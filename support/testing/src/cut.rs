//! A transport that can be cut, in each of the ways in which they die.

use std::cell::Cell;
use std::rc::Rc;

use am_api::{Address, Transport};
use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError};

/// How a way is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It carries all frames.
    #[default]
    Whole,
    /// What is sent is lost, and nothing says so.
    Silent,
    /// What is sent is lost, and it says that it is broken.
    Broken,
    /// It takes no frames.
    Full,
}

/// The hand at the switch.
pub type Switch = Rc<Cell<State>>;

/// The transport that can be cut.
pub struct Cut {
    inner: Box<dyn Transport>,
    caps: Caps,
    state: Switch,
}

impl Cut {
    /// A transport of this name, and its switch.
    pub fn new(name: &str, inner: Box<dyn Transport>) -> (Cut, Switch) {
        let state = Switch::default();
        let caps = Caps { name: name.to_owned(), ..inner.caps().clone() };
        (Cut { inner, caps, state: Rc::clone(&state) }, state)
    }
}

impl Transport for Cut {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let state = self.state.get();
        if state == State::Whole || state == State::Full {
            return self.inner.receive(budget, each);
        }
        self.inner.receive(budget, &mut drop);
        0
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        match self.state.get() {
            State::Whole => self.inner.send(to, frame),
            State::Silent | State::Broken => true,
            State::Full => false,
        }
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.inner.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        if self.state.get() == State::Broken {
            each(Notice::LinkError("it was cut"));
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}
