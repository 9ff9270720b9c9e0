//! The state of the switch, the delivery of a frame to a port, and the record of which ports have exchanged control frames. Only those are
//! notified of each other's end, so a program that merely attaches and leaves wakes no other. `forward.rs` moves the frames.

use std::time::Instant;

use am_ring::{Frame, Pool};
use am_transport::{Command, Transport};
use am_vnic::protocol::FromDaemon;
use am_wire::control::Name;
use am_wire::{Address, Buffer, EtherType};

use crate::address::number_in;
use crate::grants::{FlowGrant, Granted};
use crate::judge::{FlowNews, Refusal, destination};
use crate::member::Member;
use crate::schedule::Schedule;
use crate::state::StateFile;

/// The sender number of frames from the wire; other sender numbers are ports.
pub(crate) const WIRE_SENDER: u16 = u16::MAX;

/// The counters of the switch as a whole.
#[derive(Debug, Default)]
pub(crate) struct SwitchCounts {
    /// Frames from the wire whose destination is no port.
    pub(crate) for_no_port: u64,
    /// Frames from the wire whose source is the address of a port, so they are forged.
    pub(crate) spoofed: u64,
    /// Frames from the wire.
    pub(crate) from_wire: u64,
    /// Frames to the wire.
    pub(crate) to_wire: u64,
}

/// The switch of one daemon.
pub(crate) struct Switch {
    pub(crate) members: Vec<Option<Box<Member>>>,
    pub(crate) schedule: Schedule,
    pub(crate) wire: Option<Box<dyn Transport>>,
    /// The pool of the frames into which the programs' frames are copied.
    pub(crate) pool: Pool,
    /// The frame for the next copy.
    pub(crate) spare: Option<Frame>,
    pub(crate) base: Address,
    pub(crate) ethertype: EtherType,
    /// The ports whose lanes have unpublished frames, a bit each.
    pub(crate) dirty: u128,
    /// Ports with too many refused frames, each with the last reason.
    pub(crate) offenders: Vec<(usize, Refusal)>,
    /// Beacons with new names, until the daemon has accepted or refused the name.
    pub(crate) claims: Vec<(usize, Name, Frame)>,
    pub(crate) state: StateFile,
    /// When to check again for programs that do not poll.
    pub(crate) next_heartbeats: Instant,
    pub(crate) counts: SwitchCounts,
}

/// The result of one attempt.
pub(crate) enum Step {
    /// A message on a granted flow was forwarded.
    Moved,
    /// A frame was forwarded or refused, and the visit ends.
    Last,
    Empty,
    /// The wire has no room, or the pool has no frame.
    Blocked,
}

impl Switch {
    /// A switch without ports. The ports' addresses are derived from `base`.
    pub(crate) fn new(
        wire: Option<Box<dyn Transport>>,
        pool: Pool,
        base: Address,
        ethertype: EtherType,
        state: StateFile,
    ) -> Switch {
        Switch {
            members: (0..crate::address::MAX_PORTS).map(|_| None).collect(),
            schedule: Schedule::default(),
            wire,
            pool,
            spare: None,
            base,
            ethertype,
            dirty: 0,
            offenders: vec![],
            claims: vec![],
            state,
            next_heartbeats: Instant::now(),
            counts: SwitchCounts::default(),
        }
    }

    #[cold]
    pub(crate) fn refuse(&mut self, number: usize, why: Refusal) -> Step {
        let is_offender = self.members[number].as_deref_mut().is_some_and(|member| member.refuse(why));
        if is_offender && !self.offenders.iter().any(|(offender, _)| *offender == number) {
            self.offenders.push((number, why));
        }
        Step::Last
    }

    /// The port with this address.
    #[inline]
    pub(crate) fn port_at(&self, address: Address) -> Option<usize> {
        let number = number_in(self.base, address);
        let member = self.members.get(number)?.as_deref()?;
        (member.guard.address() == address).then_some(number)
    }

    /// Write a frame to a port's lane. `unasked` is the sender's number if the frame is on no flow of the port.
    #[inline]
    pub(crate) fn deliver(&mut self, to: usize, frame: &[u8], unasked: Option<u16>) {
        let Some(member) = self.members[to].as_deref_mut() else { return };
        let Some(port) = &mut member.port else {
            member.counts.dropped += 1;
            return;
        };
        let is_pushed = match unasked {
            None => port.lanes.to.push(frame).is_ok(),
            Some(sender) => port.push_unasked(frame, sender),
        };
        if !is_pushed {
            member.counts.dropped += 1;
            return;
        }
        member.counts.delivered += 1;
        self.dirty |= 1 << to;
    }

    /// Publish delivered frames: make them visible to their programs.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.dirty != 0 {
            self.publish_lanes();
        }
    }

    #[inline(never)]
    fn publish_lanes(&mut self) {
        while self.dirty != 0 {
            let number = self.dirty.trailing_zeros() as usize;
            self.dirty &= self.dirty - 1;
            let port = self.members[number].as_deref_mut().and_then(|member| member.port.as_mut());
            port.into_iter().for_each(am_vnic::Port::publish);
        }
    }

    /// Deliver a frame to every port except its sender, `but`.
    pub(crate) fn deliver_to_all(&mut self, frame: &[u8], but: Option<usize>) {
        for nth in 0.. {
            let Some(number) = self.schedule.port(nth) else { break };
            if Some(number) != but {
                but.into_iter().for_each(|from| self.know_each_other(from, number));
                self.deliver(number, frame, Some(but.map_or(WIRE_SENDER, |port| port as u16)));
            }
        }
    }

    /// Forward a beacon whose name the daemon has accepted.
    pub(crate) fn admit_claim(&mut self, from: usize, frame: &Frame) {
        self.deliver_to_all(frame.bytes(), Some(from));
        self.publish();
        self.send_once(frame);
    }

    /// Send a frame to the wire, or drop it if the wire is full. For frames that their node repeats anyway.
    pub(crate) fn send_once(&mut self, frame: &Frame) {
        let sent = self.wire.as_mut().is_some_and(|wire| wire.send(destination(frame.bytes()), frame));
        self.counts.to_wire += u64::from(sent);
    }

    /// Update the port's grants: a peer has opened a flow to this port, or ended one.
    #[cold]
    pub(crate) fn note_flow(&mut self, port: usize, to: Address, news: Option<FlowNews>, granter: Option<u16>) {
        let Some(member) = self.members[port].as_deref_mut() else { return };
        match news {
            Some(FlowNews::Opened(flow, nonce)) => {
                let grant = FlowGrant { to, flow, nonce };
                let record = self.state.free_grant();
                match member.guard.grants.grant(grant, granter, record) {
                    Granted::New(forgotten) => {
                        forgotten.into_iter().for_each(|record| self.state.forget_grant(record));
                        self.state.put_grant(record, port, granter, grant);
                    }
                    Granted::Renewed(record) => self.state.put_grant(record, port, granter, grant),
                    Granted::Known => (),
                    Granted::Refused => member.counts.grants_refused += 1,
                }
            }
            Some(FlowNews::Ended(flow, nonce)) => {
                let ended = member.guard.grants.revoke(FlowGrant { to, flow, nonce });
                ended.into_iter().for_each(|record| self.state.forget_grant(record));
            }
            None => (),
        }
    }

    /// Whether a port has a frame that waits for room on the wire.
    pub(crate) fn has_blocked_frame(&self) -> bool {
        self.schedule.ports().any(|number| self.members[number].as_ref().is_some_and(|member| member.blocked.is_some()))
    }

    /// Prepare all ports and the wire for a sleep of the daemon, so that new frames wake it.
    pub(crate) fn before_sleep(&mut self) {
        for member in self.members.iter_mut().flatten() {
            member.port.iter_mut().for_each(am_vnic::Port::before_sleep);
        }
        if let Some(wire) = &mut self.wire {
            // The result is ignored: this command cannot fail.
            _ = wire.control(Command::BeforeSleep);
        }
    }

    /// End the sleep of the daemon: the programs need not wake it.
    pub(crate) fn after_sleep(&mut self) {
        self.members.iter().flatten().flat_map(|member| &member.port).for_each(am_vnic::Port::after_sleep);
    }

    /// The ports whose programs have not attached again in time.
    pub(crate) fn expired(&self, now: Instant) -> Vec<usize> {
        let is_expired = |number: &usize| {
            self.members[*number].as_deref().and_then(|member| member.kept_until).is_some_and(|until| until <= now)
        };
        self.schedule.ports().filter(is_expired).collect()
    }

    /// Record that one of two ports has sent a control frame to the other.
    pub(crate) fn know_each_other(&mut self, one: usize, other: usize) {
        for (port, peer) in [(one, other), (other, one)] {
            self.members[port].as_deref_mut().into_iter().for_each(|member| member.known |= 1 << peer);
        }
    }

    /// Notify the ports that know an ended port. A port that waits for its program is notified when the program attaches again.
    pub(crate) fn notify_of_end(&mut self, port: usize, address: Address, known: u128) {
        for (number, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member.as_deref_mut() else { continue };
            member.known &= !(1 << port);
            match &member.port {
                _ if known & 1 << number == 0 => (),
                Some(program) => _ = program.tell(&FromDaemon::PeerGone(address)),
                None => member.missed.push(address),
            }
        }
    }

    /// Send a packet to all programs.
    pub(crate) fn send_to_all(&mut self, packet: &FromDaemon) {
        for member in self.members.iter().flatten() {
            member.port.iter().for_each(|port| _ = port.tell(packet));
        }
    }
}
