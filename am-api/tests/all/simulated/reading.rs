//! A transport whose peers are in the same process, so that their memory can be read; now and then it cannot.

use std::io::IoSliceMut;

use am_netdev_sim::NicHandle;
use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport};
use am_wire::Address;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

pub(super) struct Reading {
    inner: NicHandle,
    /// One of this many reads fails. 0: there is no reading at all.
    fails: u64,
    reads: u64,
}

impl Reading {
    pub(super) fn new(inner: NicHandle, seed: u64) -> Reading {
        Reading { inner, fails: [0, u64::MAX, 5, 2][seed as usize % 4], reads: seed }
    }
}

impl Transport for Reading {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.inner.receive(budget, each)
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
        self.inner.poll_notices(each);
    }

    fn read_memory(&mut self, _of: Address, at: u64, into: &mut [u8]) -> bool {
        let len = into.len();
        self.reads = self.reads.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let remote = [RemoteIoVec { base: at as usize, len }];
        !(self.reads >> 33).is_multiple_of(self.fails)
            && process_vm_readv(Pid::this(), &mut [IoSliceMut::new(into)], &remote) == Ok(len)
    }

    fn prefers_reading(&mut self, _of: Address, bytes: u64) -> bool {
        self.fails > 0 && bytes >= 16 << 10
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}
