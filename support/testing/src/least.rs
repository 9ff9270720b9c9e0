//! A transport with the calls that each must have, and none of those that it may have.

use am_api::{Address, Transport};
use am_ring::Frame;
use am_transport::{Caps, Command, PeerAddressError};

/// Wraps a transport and reduces it to the features of the simplest one. It gets none of the commands that a bouncing
/// program needs, and loses frames to addresses that it does not carry.
pub struct Least {
    /// The other one.
    pub inner: Box<dyn Transport>,
    /// What it carries.
    pub carries: fn(Address) -> bool,
}

impl Transport for Least {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.inner.receive(budget, each)
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        !(self.carries)(to) || self.inner.send(to, frame)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            Command::Steer { .. } => self.inner.control(command),
            _ => command.without_peers(self.caps()),
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}
