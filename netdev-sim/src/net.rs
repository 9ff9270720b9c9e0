//! The network: its parts, joined by one queue of events.

use std::time::Duration;

use am_transport::trace;
use am_wire::Address;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::card::Card;
use crate::clock::{EventQueue, Nanos};
use crate::fault::FaultRng;
use crate::nic::{NetDevice, Nic};
use crate::options::{NetOptions, Netem};
use crate::sim_link::{FRAME_OVERHEAD, SimLink};
use crate::switch::{PortState, Switch};
use crate::wire_frame::{Buffers, WireFrame};

/// An event that concerns a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeEvent {
    /// A frame arrived for this node.
    Wake(usize),
    /// The time has come that the caller asked for with [`Net::alarm`].
    Alarm(usize),
    /// The node does not run until that time.
    Stall(usize, Nanos),
    /// The node is dead, and its NIC and the frames in it are gone.
    Death(usize),
    /// The node can start again, with a fresh NIC.
    Restart(usize),
}

impl NodeEvent {
    /// The node that it concerns.
    pub fn node(self) -> usize {
        match self {
            NodeEvent::Wake(node) | NodeEvent::Alarm(node) | NodeEvent::Stall(node, _) => node,
            NodeEvent::Death(node) | NodeEvent::Restart(node) => node,
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScheduledEvent {
    /// The NIC can put its next frame onto the cable.
    Read(usize),
    AtSwitch(usize, WireFrame),
    /// A frame from this port has passed the trunk.
    BehindTrunk(usize, WireFrame),
    /// A frame has left the switch through this port.
    Forwarded(usize),
    AtNic(usize, WireFrame),
    Node(NodeEvent),
}

/// A network: NICs, a switch, a link in each direction between them, and the queue of events.
#[derive(Debug)]
pub struct Net<N = Nic> {
    options: NetOptions,
    pub(crate) clock: EventQueue<ScheduledEvent>,
    random: SmallRng,
    nics: Vec<N>,
    alive: Vec<bool>,
    /// For each node, how many scheduled reads are for NICs that it had before.
    stale_reads: Vec<u32>,
    /// From each node to the switch.
    up: Vec<SimLink>,
    /// From the switch to each node.
    down: Vec<SimLink>,
    switch: Switch,
    /// When each direction of the trunk is free again.
    trunk_free_at: [Nanos; 2],
    capture: Option<Vec<u8>>,
    buffers: Buffers,
    /// Ports of the switch that have become busy. Empty between two events; kept for its memory.
    woken: Vec<usize>,
}

impl Net {
    /// The network that the options describe.
    ///
    /// # Panics
    /// The options ask for an impossible pool.
    pub fn new(options: NetOptions) -> Net {
        Net::with_devices(options)
    }
}

impl<N: NetDevice> Net<N> {
    /// The network that the options describe, with devices of this type.
    ///
    /// # Panics
    /// The options ask for an impossible pool.
    pub(crate) fn with_devices(options: NetOptions) -> Net<N> {
        let mut net = Net {
            clock: EventQueue::new(),
            random: SmallRng::seed_from_u64(options.seed ^ 0x5eed),
            nics: vec![],
            alive: vec![true; options.nodes],
            stale_reads: vec![0; options.nodes],
            up: vec![],
            down: vec![],
            switch: Switch::new(options.nodes),
            trunk_free_at: [0; 2],
            capture: None,
            buffers: Buffers::default(),
            woken: vec![],
            options,
        };
        for node in 0..net.options.nodes {
            let (nic, up, down) = (net.open(node), net.fault_rng(), net.fault_rng());
            net.nics.push(nic);
            let extra_delay = net.options.extra_delay.get(node).copied().unwrap_or_default();
            let netem = net.options.netem.get(node).copied().unwrap_or_default();
            net.up.push(SimLink::new(up, extra_delay, netem));
            net.down.push(SimLink::new(down, extra_delay, Netem::default()));
        }
        for stall in &net.options.stalls {
            net.clock.schedule(stall.from, ScheduledEvent::Node(NodeEvent::Stall(stall.node, stall.until)));
        }
        for death in &net.options.deaths {
            net.clock.schedule(death.at, ScheduledEvent::Node(NodeEvent::Death(death.node)));
            if let Some(restart) = death.restart {
                net.clock.schedule(restart, ScheduledEvent::Node(NodeEvent::Restart(death.node)));
            }
        }
        net
    }

    fn fault_rng(&mut self) -> FaultRng {
        FaultRng::new(SmallRng::seed_from_u64(self.random.random()), self.options.faults_until)
    }

    fn open(&mut self, node: usize) -> N {
        let (rng, address) = (self.fault_rng(), self.address(node));
        let card = Card::new(&self.options, address, rng, self.now());
        N::open(&self.options, card, address)
    }

    /// The options of the network.
    pub fn options(&self) -> &NetOptions {
        &self.options
    }

    /// The virtual time.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// How many events have been scheduled so far.
    pub fn events(&self) -> u64 {
        self.clock.count
    }

    /// The address of a node's NIC.
    pub fn address(&self, node: usize) -> Address {
        Address::from_u64((2 << 40) + 1 + node as u64)
    }

    /// A node's NIC, with its clock set to now. Call [`Net::start_nic`] afterwards.
    pub fn nic(&mut self, node: usize) -> &mut N {
        let now = self.now();
        card(&mut self.nics, node, now);
        &mut self.nics[node]
    }

    /// The switch.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// A node's link to the switch, and its link from the switch.
    pub fn links(&self, node: usize) -> [&SimLink; 2] {
        [&self.up[node], &self.down[node]]
    }

    /// Capture every frame that reaches the switch from now on, for tcpdump and Wireshark.
    pub fn start_capture(&mut self) {
        let mut file = vec![];
        // Writing to memory does not fail.
        _ = trace::write_header(&mut file);
        self.capture = Some(file);
    }

    /// The capture file: each frame with its virtual time. The caller writes it to disk.
    pub fn capture(&self) -> Option<&[u8]> {
        self.capture.as_deref()
    }

    /// Ask for a [`NodeEvent::Alarm`] at this time.
    pub fn alarm(&mut self, at: Nanos, node: usize) {
        self.clock.schedule(at, ScheduledEvent::Node(NodeEvent::Alarm(node)));
    }

    /// The node has used its NIC. If it rang the doorbell, the NIC starts to read its TX ring.
    pub fn start_nic(&mut self, node: usize) {
        if self.nics[node].card().start_if_rung() {
            self.clock.schedule(self.now(), ScheduledEvent::Read(node));
        }
    }

    /// Run events until one concerns a node. `None` when no event is left.
    pub fn step(&mut self) -> Option<NodeEvent> {
        loop {
            if let (_, Some(event)) = self.step_once()? {
                return Some(event);
            }
        }
    }

    /// Run one event, so that the caller can check the network after each. Returns the node whose NIC, link or switch port it
    /// touched; and the event, if it concerns that node. `None` when no event is left.
    pub fn step_once(&mut self) -> Option<(usize, Option<NodeEvent>)> {
        Some(match self.clock.pop()? {
            ScheduledEvent::Read(node) => (node, self.read(node)),
            ScheduledEvent::AtSwitch(port, frame) => (port, self.at_switch(port, frame)),
            ScheduledEvent::BehindTrunk(port, frame) => (port, self.switch_frame(port, frame)),
            ScheduledEvent::Forwarded(port) => {
                if self.switch.remove_sent(port) {
                    self.forward(port);
                }
                (port, None)
            }
            ScheduledEvent::AtNic(node, frame) => (node, self.at_nic(node, &frame)),
            ScheduledEvent::Node(event) => (event.node(), self.apply(event)),
        })
    }

    /// Run the events that are due by `to`, and set the clock to `to`. `each` gets those that concern a node.
    pub(crate) fn advance(&mut self, to: Nanos, each: &mut dyn FnMut(NodeEvent)) {
        while self.clock.next_time().is_some_and(|next| next <= to)
            && let Some((_, event)) = self.step_once()
        {
            event.into_iter().for_each(&mut *each);
        }
        self.clock.advance_to(to);
    }

    /// Allocate memory for this many frames in flight.
    pub(crate) fn reserve(&mut self, frames: usize) {
        self.clock.reserve(4 * frames);
        self.buffers.reserve(frames, self.options.max_frame);
        self.switch.reserve(frames);
        self.woken.reserve(self.options.nodes);
    }

    /// Plug a fresh NIC into this node's cable, and tell the switch its address.
    pub(crate) fn plug(&mut self, node: usize) {
        self.alive[node] = true;
        self.switch.set_port(node, PortState::Known(self.address(node)));
    }

    /// Unplug this node's NIC. First it sends the frames of its TX ring; the other frames in it are gone.
    pub(crate) fn unplug(&mut self, node: usize) {
        while let Some(frame) = self.nics[node].card().read_on_unplug(&mut self.buffers) {
            self.carry_up(node, frame);
        }
        self.alive[node] = false;
        self.switch.set_port(node, PortState::Unplugged);
        self.replace(node);
    }

    fn replace(&mut self, node: usize) {
        self.stale_reads[node] += self.nics[node].card().busy as u32;
        self.nics[node] = self.open(node);
    }

    fn read(&mut self, node: usize) -> Option<NodeEvent> {
        // This read was scheduled for an earlier NIC. The new one schedules its own.
        if self.stale_reads[node] > 0 {
            self.stale_reads[node] -= 1;
            return None;
        }
        let now = self.now();
        let frame = card(&mut self.nics, node, now).read(&mut self.buffers)?;
        let free = self.carry_up(node, frame);
        self.clock.schedule(free, ScheduledEvent::Read(node));
        None
    }

    /// Put a frame onto the cable from a NIC to the switch. Returns the time when the cable is free again.
    fn carry_up(&mut self, node: usize, frame: WireFrame) -> Nanos {
        let now = self.now();
        let Net { up, options, clock, buffers, .. } = self;
        let arrives = &mut |at, frame| clock.schedule(at, ScheduledEvent::AtSwitch(node, frame));
        up[node].carry(now, options, frame, buffers, arrives)
    }

    fn at_switch(&mut self, port: usize, frame: WireFrame) -> Option<NodeEvent> {
        let now = self.now();
        if let Some(capture) = &mut self.capture {
            _ = trace::write_frame(capture, Duration::from_nanos(now), frame.bytes());
        }
        match self.options.trunk.and_then(|rate| self.cross_trunk(port, frame.bytes(), rate)) {
            Some(Some(at)) => self.clock.schedule(at, ScheduledEvent::BehindTrunk(port, frame)),
            Some(None) => self.switch.count.full += 1,
            None => return self.switch_frame(port, frame),
        }
        None
    }

    /// When a frame from this port has passed the trunk: inside, `None` if its buffer is full. `None` if it need not pass: its
    /// destination is in the same half, or unknown. Frames for everybody are few, and take no time on the trunk.
    fn cross_trunk(&mut self, port: usize, bytes: &[u8], rate: u64) -> Option<Option<Nanos>> {
        let half = |port: usize| usize::from(port >= self.options.nodes / 2);
        let to = self.switch.port_of(Address(*bytes.first_chunk()?))?;
        if half(to) == half(port) {
            return None;
        }
        let (now, free_at) = (self.now(), self.trunk_free_at[half(port)].max(self.now()));
        let waiting = (free_at - now) as u128 * rate as u128 / 8_000_000_000;
        if waiting as usize + bytes.len() > self.options.switch_buffer {
            return Some(None);
        }
        let passed = free_at + (bytes.len() as u64 + FRAME_OVERHEAD) * 8 * 1_000_000_000 / rate;
        self.trunk_free_at[half(port)] = passed;
        Some(Some(passed))
    }

    fn switch_frame(&mut self, port: usize, frame: WireFrame) -> Option<NodeEvent> {
        let now = self.now();
        let mut woken = std::mem::take(&mut self.woken);
        self.switch.arrive(now, &self.options, (port, frame), &mut woken);
        woken.drain(..).for_each(|port| self.forward(port));
        self.woken = woken;
        None
    }

    /// Put the first frame of a port's buffer onto the cable. It stays in the buffer until it has left.
    fn forward(&mut self, port: usize) {
        let now = self.now();
        let Some(frame) = self.switch.front(port) else { return };
        let Net { down, options, clock, buffers, .. } = self;
        let arrives = &mut |at, frame| clock.schedule(at, ScheduledEvent::AtNic(port, frame));
        let free = down[port].carry(now, options, frame, buffers, arrives);
        self.clock.schedule(free, ScheduledEvent::Forwarded(port));
    }

    fn at_nic(&mut self, node: usize, frame: &WireFrame) -> Option<NodeEvent> {
        if !self.alive[node] {
            return None;
        }
        let now = self.now();
        let card = card(&mut self.nics, node, now);
        let Some(reject) = card.bounce(frame, &mut self.buffers) else {
            return card.arrive(frame).then_some(NodeEvent::Wake(node));
        };
        self.carry_up(node, reject);
        None
    }

    /// Apply a planned event to its node, and return it. `None` if it is impossible: a dead node does not die again.
    fn apply(&mut self, event: NodeEvent) -> Option<NodeEvent> {
        let is_possible = match event {
            NodeEvent::Death(node) => std::mem::replace(&mut self.alive[node], false),
            NodeEvent::Restart(node) => !std::mem::replace(&mut self.alive[node], true),
            NodeEvent::Wake(node) | NodeEvent::Alarm(node) | NodeEvent::Stall(node, _) => self.alive[node],
        };
        if let (true, NodeEvent::Death(node)) = (is_possible, event) {
            self.replace(node);
        }
        is_possible.then_some(event)
    }
}

#[cfg(test)]
mod tests;

/// The card of a node, with its clock set.
fn card<N: NetDevice>(nics: &mut [N], node: usize, now: Nanos) -> &mut Card {
    let card = nics[node].card();
    card.now = now;
    card
}
