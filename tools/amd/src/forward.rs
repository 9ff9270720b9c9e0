//! The switch moves frames between the ports, from the ports to the wire, and from the wire to the ports.
//!
//! ```text
//!   wire ──▶ by destination ──▶ lane of that port, or of all
//!   port ──▶ copied ──▶ judged ──▶ a port of this daemon: its lane
//!                                  everyone: all other lanes, and the wire
//!                                  any other: the wire
//!   port ──▶ like the message before, to a port: from lane to lane (relay.rs)
//! ```
//!
//! When a port's lane is full, the frame is dropped and counted for that port; its sender retransmits. When the wire is full, nothing
//! is dropped: the switch keeps the port's frame and does not read that port again before the frame has left. So a port occupies no more of
//! the daemon's memory than one frame and its lanes.

use am_ring::Frame;
use am_ring::lane::Peeked;
use am_wire::Buffer;

use crate::grants::FlowGrant;
use crate::judge::{Refusal, Ruling, destination, ended_by, news_of};
use crate::schedule::Visit;
use crate::switch::{Step, Switch};

impl Switch {
    /// One turn: forward a burst from the wire, then visit each port. Returns the number of forwarded frames.
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

    /// Forward the frames that a program sent before it ended, `frames` at most.
    pub(crate) fn serve_last(&mut self, port: usize, frames: usize) {
        for _ in 0..frames {
            if self.serve(port, 1) == 0 {
                break;
            }
        }
        self.publish();
    }

    /// Whether to visit a port: it has frames, and is not paused after a refused frame. The pause keeps a program whose frames are all refused
    /// from slowing the others.
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

    /// Visit a port: forward its frames until the port is empty or its attempts are used up.
    ///
    /// Only messages on granted flows may use all attempts. A refused frame ends the visit, so a program whose frames are all refused delays
    /// the others by one frame a turn. A control frame ends it too, because it may go to all ports.
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

    /// Forward one frame of a port.
    #[inline]
    fn step(&mut self, number: usize) -> Step {
        let Some(member) = self.members[number].as_deref_mut() else { return Step::Empty };
        if member.blocked.is_some() {
            return self.send_blocked(number);
        }
        let Some(port) = &mut member.port else { return Step::Empty };
        let length = match port.lanes.look() {
            Peeked::Frame(length) => length,
            Peeked::Nothing | Peeked::Closed => return Step::Empty,
            Peeked::Invalid => return self.refuse(number, Refusal::Malformed),
        };
        if let Some(step) = self.relay(number, length) {
            return step;
        }
        let mut space = self.spare.take().or_else(|| self.pool.take());
        let step = self.copy_and_judge(number, length, &mut space);
        self.spare = space;
        step
    }

    /// Copy the next frame of a port, which has this length, out of its lane, and forward the copy if the filter allows it. `space` lends the
    /// memory for the copy, and keeps it unless the copy is forwarded.
    fn copy_and_judge(&mut self, number: usize, length: usize, space: &mut Option<Frame>) -> Step {
        let Some(member) = self.members[number].as_deref_mut() else { return Step::Empty };
        let (Some(port), Some(frame)) = (&mut member.port, &mut *space) else { return Step::Blocked };
        if !port.lanes.from.take_frame(frame, length) {
            return self.refuse(number, Refusal::Malformed);
        }
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

    /// Forward a message to a port of this daemon, or to the wire.
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

    /// Forward a control frame that the filter allows.
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
}
