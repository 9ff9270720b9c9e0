//! Beacons: how a node makes itself known, and asks others to.

use core::time::Duration;

use am_wire::control::{Beacon, Control, Purpose};
use am_wire::{Address, Buffer, Framing, Framings};

use crate::control_queue::OutgoingControl;
use crate::node::Core;
use crate::output::Command;
use crate::rate_limit::LATENESS;
use crate::time::{Time, TimerKind};

impl<B: Buffer> Core<B> {
    /// A control frame or a reject that was not made with this node's key.
    pub(crate) fn note_unauthenticated(&mut self) {
        self.counters.control_unauthenticated += 1;
        self.discovery.unauthenticated_at = Some(self.now);
    }

    /// Getter: whether frames of nodes with another segment key, or without one, arrived lately.
    pub fn has_unauthenticated(&self) -> bool {
        let lately = self.config.beacon * 3;
        self.discovery.unauthenticated_at.is_some_and(|at| self.now - at < lately)
    }

    /// Have the transport ask the added addresses that have not answered.
    pub(crate) fn introduce(&mut self) {
        if !matches!(self.outputs.commands.back(), Some(Command::Introduce)) {
            self.outputs.commands.push_back(Command::Introduce);
        }
    }

    /// A set-up waits for a peer that is unknown, or does not answer. Ask all nodes, unless that was done lately: one question serves all
    /// set-ups.
    pub(crate) fn search(&mut self, now: Time) {
        if self.discovery.search.try_take(now, self.discovery.peers.count()) {
            self.broadcast_beacon(true);
        }
    }

    /// Broadcast a beacon. With `answer` it asks every receiver for its own beacon.
    pub(crate) fn broadcast_beacon(&mut self, answer: bool) {
        if !self.sending.control.has_enough_broadcasts() {
            self.send_beacon(Address::BROADCAST, answer);
        }
    }

    pub(crate) fn send_beacon(&mut self, to: Address, answer: bool) {
        let beacon = self.beacon(if answer { Purpose::Ask } else { Purpose::Announce });
        self.sending.control.push(to, Control::Beacon(beacon));
    }

    fn beacon(&self, purpose: Purpose) -> Beacon {
        Beacon {
            node: self.config.node,
            incarnation: self.config.incarnation,
            name: self.config.name,
            address: self.config.address,
            framings: Framings::ALL,
            max_frame: self.config.max_frame as u32,
            purpose,
        }
    }

    /// Getter: the frame that says, while nothing calls this core, that the node is alive. It stays the same. It is a
    /// broadcast, for another thread or process to send.
    pub fn heartbeat(&self) -> Vec<u8> {
        self.beacon_to_all(Purpose::Heartbeat)
    }

    /// Getter: the frame that asks a peer to introduce itself. It is a broadcast: the peer's link address is unknown.
    pub fn introduction(&self) -> Vec<u8> {
        self.beacon_to_all(Purpose::Ask)
    }

    fn beacon_to_all(&self, purpose: Purpose) -> Vec<u8> {
        let body = Control::Beacon(self.beacon(purpose));
        let to = Address::BROADCAST;
        let outgoing = OutgoingControl { to, framing: Framing::Plain, body, min_length: 0 };
        let mut frame = vec![0; Control::MAX_FRAME];
        let length = self.emit_control(&outgoing, &mut frame).unwrap_or(0);
        frame.truncate(length);
        frame
    }

    /// From above: this node did not poll for long. Tell the peers that it polls again, with the next outputs.
    #[cold]
    pub fn on_late(&mut self) {
        self.counters.late += 1;
        // On a busy machine all nodes are late, again and again.
        if self.discovery.late_news.try_take(self.now, self.discovery.peers.count(), &LATENESS) {
            self.broadcast_beacon(false);
        }
    }

    pub(crate) fn beacon_timeout(&mut self, now: Time, at: Time) {
        if self.time.beacon_timer.take_if_due(at) {
            let answer = self.discovery.watch.take_introduction();
            self.broadcast_beacon(answer);
            self.arm_beacon(now);
        }
    }

    /// Set the time of the next beacon.
    pub(crate) fn arm_beacon(&mut self, now: Time) {
        let usual = self.discovery.watch.beacon_interval(&self.config);
        let pause = self.time.beacon_pause.min(usual);
        self.time.beacon_pause = (pause * 2).min(usual);
        // Many nodes that started together must not announce themselves together.
        let part = if self.discovery.watch.is_crowded { pause / 4 } else { Duration::ZERO };
        let earlier = self.random.part_of(part);
        self.time.timers.arm(&mut self.time.beacon_timer, TimerKind::Beacon, 0, now + (pause - earlier));
    }
}
