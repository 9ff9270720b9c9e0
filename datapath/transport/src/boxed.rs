//! A boxed transport, chosen at run time, is a transport.

use am_ring::Frame;
use am_wire::Address;

use crate::{Caps, Command, Notice, PeerAddressError, PeerInfo, Transport};

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn caps(&self) -> &Caps {
        (**self).caps()
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        (**self).receive(budget, each)
    }

    #[inline]
    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        (**self).send(to, frame)
    }

    #[inline]
    fn flush(&mut self) {
        (**self).flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        (**self).control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        (**self).poll_notices(each);
    }

    fn peer(&self, at: Address) -> PeerInfo {
        (**self).peer(at)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        (**self).counters(each);
    }
}
