//! A switch that learns source addresses. Its table and its buffers are bounded.

use std::collections::VecDeque;

use am_wire::Address;

use crate::options::NetOptions;
use crate::wire_frame::WireFrame;

/// A learning switch: store and forward, one buffer for each port. A frame that finds its buffer full is dropped.
#[derive(Debug)]
pub struct Switch {
    /// Address and port, oldest first. A new address replaces the oldest.
    pub(crate) learned: VecDeque<(Address, usize)>,
    pub(crate) ports: Vec<SwitchPort>,
    /// The switch's counters.
    pub count: SwitchCount,
}

#[derive(Debug, Default)]
pub(crate) struct SwitchPort {
    waiting: VecDeque<WireFrame>,
    pub(crate) bytes: usize,
    state: PortState,
}

/// What is plugged into a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PortState {
    /// A node. The switch learns its address.
    #[default]
    Learning,
    /// A node with a configured address.
    Known(Address),
    /// No cable.
    Unplugged,
}

/// A switch's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCount {
    /// Frames sent to the port of their destination.
    pub forwarded: u64,
    /// Frames sent to all ports except their own.
    pub flooded: u64,
    /// Frames that found the buffer of a port, or of the trunk, full.
    pub full: u64,
    /// Frames with a wrong check sequence.
    pub damaged: u64,
    /// Frames that a partition stopped.
    pub partitioned: u64,
    /// Addresses removed from the full table.
    pub evicted: u64,
}

impl Switch {
    pub(crate) fn new(ports: usize) -> Switch {
        let ports = (0..ports).map(|_| SwitchPort::default()).collect();
        Switch { learned: VecDeque::new(), ports, count: SwitchCount::default() }
    }

    /// Say what is plugged into a port from now on.
    pub(crate) fn set_port(&mut self, port: usize, who: PortState) {
        self.ports[port].state = who;
    }

    /// Allocate room for this many frames at each port.
    pub(crate) fn reserve(&mut self, frames: usize) {
        self.ports.iter_mut().for_each(|port| port.waiting.reserve(frames));
    }

    /// A frame came in. `woken` gets the ports that were idle and now have a frame to send.
    pub(crate) fn arrive(
        &mut self,
        now: u64,
        options: &NetOptions,
        (from, signal): (usize, WireFrame),
        woken: &mut Vec<usize>,
    ) {
        if signal.is_damaged() && options.check {
            self.count.damaged += 1;
            return;
        }
        let address = |at: usize| signal.bytes().get(at..)?.first_chunk().map(|address| Address(*address));
        let (Some(to), Some(source)) = (address(0), address(6)) else { return };
        self.learn(source, from, options.switch_addresses);
        let known = self.port_of(to);
        let counter = if known.is_some() { &mut self.count.forwarded } else { &mut self.count.flooded };
        *counter += 1;
        let room = if options.overfills { usize::MAX } else { options.switch_buffer };
        for port in (0..self.ports.len()).filter(|&port| port != from && known.is_none_or(|known| known == port)) {
            if options.partitions.iter().any(|partition| partition.separates(now, from, port)) {
                self.count.partitioned += 1;
            } else if self.ports[port].state != PortState::Unplugged && self.store(port, signal.clone(), room) {
                woken.push(port);
            }
        }
    }

    /// The port behind which this address is, if it is known.
    pub(crate) fn port_of(&self, address: Address) -> Option<usize> {
        let configured = self.ports.iter().position(|port| port.state == PortState::Known(address));
        configured.or_else(|| self.learned.iter().find(|(known, _)| *known == address).map(|(_, port)| *port))
    }

    fn learn(&mut self, source: Address, port: usize, most: usize) {
        if source.is_group() || most == 0 {
            return;
        }
        if let Some(entry) = self.learned.iter_mut().find(|(address, _)| *address == source) {
            entry.1 = port;
            return;
        }
        if self.learned.len() >= most {
            self.learned.pop_front();
            self.count.evicted += 1;
        }
        self.learned.push_back((source, port));
    }

    /// Put a frame into a port's buffer. Whether the port was idle.
    fn store(&mut self, port: usize, signal: WireFrame, room: usize) -> bool {
        let port = &mut self.ports[port];
        let length = signal.bytes().len();
        if port.bytes + length > room {
            self.count.full += 1;
            return false;
        }
        port.bytes += length;
        port.waiting.push_back(signal);
        port.waiting.len() == 1
    }

    /// The frame that a port sends next. It stays in the buffer until [`Switch::remove_sent`].
    pub(crate) fn front(&self, port: usize) -> Option<WireFrame> {
        self.ports[port].waiting.front().cloned()
    }

    /// The port's first frame has left. Remove it. Whether another waits.
    pub(crate) fn remove_sent(&mut self, port: usize) -> bool {
        let port = &mut self.ports[port];
        if let Some(signal) = port.waiting.pop_front() {
            port.bytes -= signal.bytes().len();
        }
        !port.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire_frame::Buffers;

    fn frame(to: u8, from: u8) -> WireFrame {
        let mut bytes = vec![0; 100];
        bytes[5] = to;
        bytes[11] = from;
        Buffers::default().wire_frame(&bytes)
    }

    fn woken(switch: &mut Switch, options: &NetOptions, from: usize, signal: WireFrame) -> Vec<usize> {
        let mut woken = vec![];
        switch.arrive(0, options, (from, signal), &mut woken);
        woken
    }

    #[test]
    fn it_floods_until_it_has_learned() {
        let (mut switch, options) = (Switch::new(4), &NetOptions::calm(4));
        assert_eq!(woken(&mut switch, options, 0, frame(1, 9)), [1, 2, 3]);
        assert_eq!(woken(&mut switch, options, 1, frame(9, 1)), [0]);
        assert_eq!((switch.count.flooded, switch.count.forwarded), (1, 1));
    }

    #[test]
    fn memory_is_finite() {
        let options = NetOptions { switch_buffer: 250, switch_addresses: 3, ..NetOptions::calm(2) };
        let mut switch = Switch::new(2);
        for from in 10..20 {
            woken(&mut switch, &options, 0, frame(1, from));
        }
        assert_eq!((switch.ports[1].bytes, switch.count.full, switch.learned.len()), (200, 8, 3));
        assert!(switch.front(1).is_some() && switch.remove_sent(1) && !switch.remove_sent(1));
        assert_eq!(switch.ports[1].bytes, 0);
    }

    #[test]
    fn detected_damage_is_dropped() {
        let mut switch = Switch::new(2);
        let damaged = Buffers::default().damage(&frame(1, 2), 50, 1);
        assert_eq!(woken(&mut switch, &NetOptions::calm(2), 0, damaged.clone()), []);
        assert_eq!(woken(&mut switch, &NetOptions { check: false, ..NetOptions::calm(2) }, 0, damaged), [1]);
    }

    #[test]
    fn configured_addresses_are_not_learned_and_unplugged_ports_get_nothing() {
        let (mut switch, options) = (Switch::new(4), &NetOptions { switch_addresses: 0, ..NetOptions::calm(4) });
        switch.set_port(2, PortState::Known(Address([0, 0, 0, 0, 0, 7])));
        switch.set_port(3, PortState::Unplugged);
        assert_eq!(woken(&mut switch, options, 0, frame(7, 9)), [2]);
        assert_eq!(woken(&mut switch, options, 2, frame(9, 7)), [0, 1], "9 was not learned, and 3 is empty");
        assert_eq!(switch.learned.len(), 0);
    }
}
