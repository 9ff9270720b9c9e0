//! The switch: frames from ports to ports and to the wire, and from the wire to ports.
//!
//! ```text
//!   wire ──▶ by destination ──▶ lane of that port, or of all
//!   port ──▶ copied ──▶ judged ──▶ a port of this daemon: its lane
//!                                  everyone: all other lanes, and the wire
//!                                  any other: the wire
//!   port ──▶ like the message before, to a port: from lane to lane (relay.rs)
//! ```
//!
//! A lane without room loses the frame, which counts for that port; its sender sends again. A wire without room loses nothing: the
//! port's frame is held, and the port is not read before it has left. So no port holds more of the daemon's memory than one
//! frame, and its lanes.

use std::time::Instant;

use am_ring::{Frame, Pool};
use am_transport::{Command, Transport};
use am_vnic::Next;
use am_wire::control::Name;
use am_wire::{Address, Buffer, EtherType};

use crate::address::number_in;
use crate::grants::{FlowGrant, Granted};
use crate::judge::{FlowNews, Refusal, Ruling, destination, ended_by, news_of};
use crate::member::Member;
use crate::schedule::{Schedule, Visit};
use crate::state::StateFile;

/// The sender of frames from the wire, beside the numbers of ports.
pub(crate) const WIRE_SENDER: u16 = u16::MAX;

/// What the switch does with all ports together.
#[derive(Debug, Default)]
pub(crate) struct SwitchCounts {
    /// Frames from the wire that were for no port.
    pub(crate) for_no_port: u64,
    /// Frames from the wire with the address of a port as their source.
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
    /// Where frames of programs are copied to.
    pub(crate) pool: Pool,
    /// A frame that the next copy uses.
    pub(crate) spare: Option<Frame>,
    pub(crate) base: Address,
    pub(crate) ethertype: EtherType,
    /// The ports whose lanes have frames that are not published, a bit each.
    pub(crate) dirty: u128,
    /// Ports with too many refused frames, and what they did.
    pub(crate) offenders: Vec<(usize, Refusal)>,
    /// Beacons with new names, until the daemon has decided.
    pub(crate) claims: Vec<(usize, Name, Frame)>,
    pub(crate) state: StateFile,
    /// When to look again for programs that do not poll.
    pub(crate) next_heartbeats: Instant,
    pub(crate) counts: SwitchCounts,
}

/// The result of one attempt.
pub(crate) enum Step {
    /// A message on a granted flow has left.
    Moved,
    /// A frame was moved or refused, and it ends the visit.
    Last,
    Empty,
    /// The wire, or the pool, has no room.
    Blocked,
}

impl Switch {
    /// A switch without ports. `base` is the address from which those of ports are made.
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

    /// One turn: a burst of the wire, and each port in its turn. Returns how many frames were moved.
    pub(crate) fn turn(&mut self) -> usize {
        let mut moved = 0;
        if self.wire.is_some() {
            moved = self.receive_from_wire();
            self.publish();
        }
        self.schedule.begin();
        while let Some(Visit { port, attempts }) = self.schedule.next() {
            if self.has_work(port) {
                moved += self.serve(port, attempts);
                self.publish();
            }
        }
        if let Some(wire) = &mut self.wire {
            wire.flush();
        }
        moved
    }

    /// What a program sent before it ended still goes out.
    pub(crate) fn serve_last(&mut self, port: usize, frames: usize) {
        for _ in 0..frames {
            if self.serve(port, 1) == 0 {
                break;
            }
        }
        self.publish();
    }

    /// Whether a port is to be visited: it has frames, and none was refused in the last turns. Frames of which nothing passes must not
    /// slow the others.
    #[inline]
    fn has_work(&mut self, port: usize) -> bool {
        let Some(member) = self.members[port].as_deref_mut() else { return false };
        if member.is_quiet() {
            member.was_quiet = true;
            return false;
        }
        if member.pause > 0 {
            member.pause -= 1;
            return false;
        }
        true
    }

    /// Take frames of one port, until it has none or has used its attempts.
    ///
    /// Only messages on granted flows get the whole visit. A refused frame ends it, so a program of which nothing passes costs the others one
    /// frame of a turn, and so does a control frame, which may go to all ports.
    #[inline]
    pub(crate) fn serve(&mut self, port: usize, mut attempts: usize) -> usize {
        let mut moved = 0;
        while moved < attempts {
            match self.step(port) {
                Step::Moved => moved += 1,
                Step::Last => (moved, attempts) = (moved + 1, 0),
                Step::Empty | Step::Blocked => break,
            }
        }
        moved
    }

    /// One frame of a port.
    #[inline]
    fn step(&mut self, number: usize) -> Step {
        let Some(member) = self.members[number].as_deref_mut() else { return Step::Empty };
        if member.held.is_some() {
            return self.send_held(number);
        }
        let Some(port) = &mut member.port else { return Step::Empty };
        let length = match port.look() {
            Next::Frame(length) => length,
            Next::Nothing => return Step::Empty,
            Next::Invalid => return self.refuse(number, Refusal::Malformed),
        };
        if let Some(step) = self.relay(number, length) {
            return step;
        }
        let mut space = self.spare.take().or_else(|| self.pool.take());
        let step = self.copy_and_judge(number, length, &mut space);
        self.spare = space;
        step
    }

    /// Copy the next frame of a port, of this length, out of its lane, and pass it if it may pass. The frame in `space` stays there unless
    /// it leaves.
    fn copy_and_judge(&mut self, number: usize, length: usize, space: &mut Option<Frame>) -> Step {
        let Some(member) = self.members[number].as_deref_mut() else { return Step::Empty };
        let (Some(port), Some(frame)) = (&mut member.port, &mut *space) else { return Step::Blocked };
        let is_whole = frame.space().and_then(|space| space.get_mut(..length)).is_some_and(|space| port.take(space));
        if !is_whole {
            return self.refuse(number, Refusal::Malformed);
        }
        frame.set_len(length);
        match member.guard.judge(frame.bytes()) {
            Ok(Ruling::Granted) => {
                member.counts.sent += 1;
                let came_alone = member.came_alone();
                match self.forward(number, space) {
                    Step::Moved if came_alone => Step::Last,
                    step => step,
                }
            }
            Ok(ruling) => self.pass_control(number, ruling, space),
            Err(why) => self.refuse(number, why),
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

    /// A message goes to a port of this daemon, or to the wire.
    #[inline]
    fn forward(&mut self, from: usize, space: &mut Option<Frame>) -> Step {
        let Some(frame) = space else { return Step::Empty };
        let to = self.port_at(destination(frame.bytes()));
        if let Some(member) = self.members[from].as_deref_mut() {
            member.relays = to.is_some();
        }
        match to {
            Some(to) => {
                self.deliver(to, frame.bytes(), None);
                Step::Moved
            }
            None => self.send_to_wire(from, space),
        }
    }

    /// The port with this address.
    #[inline]
    pub(crate) fn port_at(&self, address: Address) -> Option<usize> {
        let number = number_in(self.base, address);
        let member = self.members.get(number)?.as_deref()?;
        (member.guard.address() == address).then_some(number)
    }

    /// Put a frame into a port's lane. `unasked`: its sender, if it is on no flow of the port.
    #[inline]
    pub(crate) fn deliver(&mut self, to: usize, frame: &[u8], unasked: Option<u16>) {
        let Some(member) = self.members[to].as_deref_mut() else { return };
        let Some(port) = &mut member.port else {
            member.counts.dropped += 1;
            return;
        };
        let is_pushed = match unasked {
            None => port.push(frame),
            Some(sender) => port.push_unasked(frame, sender),
        };
        if !is_pushed {
            member.counts.dropped += 1;
            return;
        }
        member.counts.delivered += 1;
        self.dirty |= 1 << to;
    }

    /// Make delivered frames visible.
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

    /// A control frame that may pass.
    #[cold]
    fn pass_control(&mut self, from: usize, ruling: Ruling, space: &mut Option<Frame>) -> Step {
        let (Some(frame), Some(member)) = (&*space, self.members[from].as_deref_mut()) else { return Step::Empty };
        let to = destination(frame.bytes());
        if let Ruling::Claim(name) = ruling {
            self.claims.extend(space.take().map(|frame| (from, name, frame)));
            return Step::Last;
        }
        if ruling == Ruling::Everyone && !member.may_broadcast() {
            return Step::Last;
        }
        member.counts.sent += 1;
        let source = member.guard.address();
        if let Ruling::Control(control) = ruling {
            if let Some((flow, nonce)) = ended_by(&control) {
                let ended = member.guard.grants.revoke(FlowGrant { to, flow, nonce });
                ended.into_iter().for_each(|record| self.state.forget_grant(record));
            }
            if let Some(port) = self.port_at(to) {
                self.know_each_other(from, port);
                self.note_flow(port, source, news_of(&control), Some(from as u16));
                self.deliver(port, frame.bytes(), Some(from as u16));
                return Step::Last;
            }
        } else {
            self.deliver_to_all(frame.bytes(), Some(from));
        }
        match self.send_to_wire(from, space) {
            Step::Moved => Step::Last,
            other => other,
        }
    }

    /// A frame for everyone but its sender.
    pub(crate) fn deliver_to_all(&mut self, frame: &[u8], but: Option<usize>) {
        for nth in 0.. {
            let Some(number) = self.schedule.port(nth) else { break };
            if Some(number) != but {
                but.into_iter().for_each(|from| self.know_each_other(from, number));
                self.deliver(number, frame, Some(but.map_or(WIRE_SENDER, |port| port as u16)));
            }
        }
    }

    /// The program may have the name that its beacon claims: let it pass.
    pub(crate) fn admit_claim(&mut self, from: usize, frame: &Frame) {
        self.deliver_to_all(frame.bytes(), Some(from));
        self.publish();
        self.send_once(frame);
    }

    /// Send a frame to the wire that is sent again later, so that a full wire need not be waited for.
    pub(crate) fn send_once(&mut self, frame: &Frame) {
        let sent = self.wire.as_mut().is_some_and(|wire| wire.send(destination(frame.bytes()), frame));
        self.counts.to_wire += u64::from(sent);
    }

    /// A peer opened a flow to this port, or ended one.
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

    /// Whether something is left to do for a port, or a port has frames.
    pub(crate) fn has_held(&self) -> bool {
        self.schedule.ports().any(|number| self.members[number].as_ref().is_some_and(|member| member.held.is_some()))
    }

    /// The daemon is about to sleep.
    pub(crate) fn before_sleep(&mut self) {
        for member in self.members.iter_mut().flatten() {
            member.port.iter_mut().for_each(am_vnic::Port::before_sleep);
        }
        if let Some(wire) = &mut self.wire {
            // This command cannot fail.
            _ = wire.control(Command::BeforeSleep);
        }
    }

    /// The daemon is awake.
    pub(crate) fn after_sleep(&mut self) {
        self.members.iter().flatten().flat_map(|member| &member.port).for_each(am_vnic::Port::after_sleep);
    }

    /// Places whose programs have not come back.
    pub(crate) fn expired(&self, now: Instant) -> Vec<usize> {
        let is_expired = |number: &usize| {
            self.members[*number].as_deref().and_then(|member| member.kept_until).is_some_and(|until| until <= now)
        };
        self.schedule.ports().filter(is_expired).collect()
    }
}
