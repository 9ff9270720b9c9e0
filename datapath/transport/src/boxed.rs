//! A boxed transport, chosen at run time, is a transport.

use am_ring::Frame;
use am_wire::bounce::Back;
use am_wire::{Address, Flow};

use crate::{Caps, IntroduceError, Transport};

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn caps(&self) -> &Caps {
        (**self).caps()
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        (**self).receive(budget, each)
    }

    #[inline]
    fn send(&mut self, to: Address, frame: Frame) -> Result<(), Frame> {
        (**self).send(to, frame)
    }

    #[inline]
    fn flush(&mut self) {
        (**self).flush();
    }

    fn steer(&mut self, flow: Flow, open: bool) {
        (**self).steer(flow, open);
    }

    fn way_back(&mut self, flow: Flow, back: &Back) {
        (**self).way_back(flow, back);
    }

    fn full(&mut self, is_full: bool) {
        (**self).full(is_full);
    }

    fn stray(&mut self) -> Option<Flow> {
        (**self).stray()
    }

    fn gone(&mut self) -> Option<Address> {
        (**self).gone()
    }

    fn promise(&mut self, frames: usize) {
        (**self).promise(frames);
    }

    fn introduce(&mut self, place: &str) -> Result<(), IntroduceError> {
        (**self).introduce(place)
    }

    fn forget(&mut self, place: &str) -> Result<(), IntroduceError> {
        (**self).forget(place)
    }

    fn broken(&mut self) -> Option<&str> {
        (**self).broken()
    }

    fn suspect(&mut self, to: Address) {
        (**self).suspect(to);
    }

    fn way_to(&self, to: Address) -> Option<String> {
        (**self).way_to(to)
    }

    fn place_of(&self, to: Address) -> Option<String> {
        (**self).place_of(to)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        (**self).counters(each);
    }
}
