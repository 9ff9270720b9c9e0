//! A NIC as a transport of its own, for a node that owns its transport.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport};
use am_wire::Address;

use crate::net::Net;

/// The NIC of one node on a shared [`Net`], until it is [disconnected](Disconnector).
///
/// The caller must not borrow the network while the node uses it, and calls [`Net::start_nic`] afterwards.
#[derive(Debug)]
pub struct NicHandle {
    net: Rc<RefCell<Net>>,
    node: usize,
    caps: Caps,
    cut: Disconnector,
}

/// Disconnects a [`NicHandle`], as when its node dies: from then on the node receives and sends nothing, not even the frames
/// of its shutdown.
#[derive(Clone, Debug, Default)]
pub struct Disconnector(Rc<Cell<bool>>);

impl Disconnector {
    /// Disconnect it now.
    pub fn disconnect(&self) {
        self.0.set(true);
    }
}

impl NicHandle {
    /// The present NIC of the node. After the node's death there is another.
    pub fn new(net: &Rc<RefCell<Net>>, node: usize) -> NicHandle {
        let caps = net.borrow_mut().nic(node).caps().clone();
        NicHandle { net: net.clone(), node, caps, cut: Disconnector::default() }
    }

    /// The handle that disconnects it.
    pub fn disconnector(&self) -> Disconnector {
        self.cut.clone()
    }

    fn with<T>(&mut self, use_it: impl FnOnce(&mut dyn Transport) -> T) -> Option<T> {
        (!self.cut.0.get()).then(|| use_it(self.net.borrow_mut().nic(self.node)))
    }
}

impl Transport for NicHandle {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.with(|nic| nic.receive(budget, each)).unwrap_or_default()
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.with(|nic| nic.send(to, frame)).unwrap_or(true)
    }

    fn flush(&mut self) {
        self.with(|nic| nic.flush());
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.with(|nic| nic.control(command)).unwrap_or(Ok(()))
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.with(|nic| nic.poll_notices(each));
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        if !self.cut.0.get() {
            self.net.borrow_mut().nic(self.node).counters(each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetOptions;

    #[test]
    fn a_disconnected_node_sends_nothing() {
        let net = Rc::new(RefCell::new(Net::new(NetOptions::calm(2))));
        let mut plug = NicHandle::new(&net, 0);
        let to = net.borrow().address(1);
        let send = |plug: &mut NicHandle| {
            let frame = plug.caps().pool.copy(&[1; 60]).expect("a frame");
            assert!(plug.send(to, &frame), "room");
            plug.flush();
            net.borrow_mut().start_nic(0);
            while net.borrow_mut().step().is_some() {}
            net.borrow_mut().nic(0).count().sent
        };
        assert_eq!(send(&mut plug), 1);
        plug.disconnector().disconnect();
        assert_eq!(send(&mut plug), 1);
    }
}
