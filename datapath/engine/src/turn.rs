//! The loop, on one page.

use std::mem;
use std::time::Duration;

use am_proto::{Core, Event, Time};
use am_ring::{Frame, Pool};
use am_transport::{Command, Notice, Transport};

/// The most frames that a turn takes in, and the most that it sends.
///
/// A turn drains bursts in each direction and not until nothing is left: a
/// flood of arrivals must not keep acknowledgements from leaving, nor a full
/// send queue credits from coming in.
pub const BURST: usize = 64;

/// A core and the memory its frames are in.
pub struct Engine {
    core: Core<Frame>,
    pool: Pool,
    /// The transport had no room since the last doorbell.
    is_full: bool,
    /// Frames handed to the transport since the last doorbell.
    sent: usize,
    /// Frames that came in with this turn.
    received: usize,
    /// What could wait has been looked at in this turn.
    settled: bool,
    /// The last turn left it to this one.
    postponed: bool,
    /// A timer had come up when the last turn was settled.
    due: bool,
    /// When the transport is asked for notices again.
    notices_at: Time,
}

/// The time between two questions to the transport for notices.
const NOTICES: Duration = Duration::from_millis(1);

/// A node that goes waits for its peers as long as this brings anything: enough for a frame that is lost twice.
const FAREWELL: Duration = Duration::from_millis(13);
/// Between two turns of a node that goes, in which its peer may need the processor.
const PAUSE: Duration = Duration::from_micros(50);

/// What a turn that finds no frame looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// At the clock too, and at what is due.
    AtAll,
    /// At frames only: for loops that come back at once. A frame is noticed
    /// the sooner the shorter a turn is.
    AtFrames,
}

/// What a turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Frames that came in.
    pub received: usize,
    /// Frames handed to the transport.
    pub sent: usize,
}

impl Turn {
    /// Nothing was there to do.
    pub fn is_idle(&self) -> bool {
        *self == Turn::default()
    }
}

impl Engine {
    /// The engine of a node. `pool` is the transport's: see [`am_transport::Caps`].
    pub fn new(core: Core<Frame>, pool: Pool) -> Self {
        let (is_full, settled, postponed, due) = (false, false, false, false);
        Engine { core, pool, is_full, sent: 0, received: 0, settled, postponed, due, notices_at: Time::default() }
    }

    /// The protocol's state.
    pub fn core(&self) -> &Core<Frame> {
        &self.core
    }

    /// The protocol, for what comes from above: see the classes of calls at [`Core`].
    pub fn core_mut(&mut self) -> &mut Core<Frame> {
        &mut self.core
    }

    /// Where frames to send come from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// When the next turn has to come at the latest: at once, where anything is
    /// left to do.
    #[inline]
    pub fn sleep_until(&self) -> Time {
        if self.postponed || self.sent > 0 || self.core.has_output() || self.core.has_events() {
            Time::default()
        } else {
            self.core.sleep_until()
        }
    }

    /// Whether the last turn left what could wait to the next, and so did not
    /// look at the clock.
    #[inline]
    pub fn is_postponed(&self) -> bool {
        self.postponed
    }

    /// One turn. Streamed as Fast Messages' LANai control program is (Pakin et
    /// al., §4.2, figure 2b): a burst at a time in each direction, instead of
    /// going through every stage for every frame. `events` gets what happened
    /// besides messages.
    pub fn turn<T: Transport + ?Sized>(
        &mut self,
        now: impl Fn() -> Time,
        transport: &mut T,
        events: &mut dyn FnMut(Event),
    ) -> Turn {
        let received = self.inhale(Look::AtAll, &now, transport);
        self.take_events(transport, events);
        let sent = self.exhale(&now, transport);
        Turn { received, sent }
    }

    /// The first half: what arrived, or, where nothing did and `look` says so,
    /// what time has brought. A caller with handlers to run runs them after it, so that their
    /// answers leave with the second half's doorbell.
    ///
    /// Time-outs come here only, behind what arrived: while handlers ran, the
    /// acknowledgement that is missed may have come in.
    #[inline]
    pub fn inhale<T: Transport + ?Sized>(
        &mut self,
        look: Look,
        now: impl FnOnce() -> Time,
        transport: &mut T,
    ) -> usize {
        self.received = transport.receive(BURST, &mut |frame| self.core.on_frame(frame));
        self.settled = self.received == 0 && !self.core.has_output();
        if self.due || (self.settled && (look == Look::AtAll || self.postponed)) {
            self.look_at_timers(now(), transport);
        }
        self.received
    }

    /// Between the halves: what happened besides messages. The transport gets its part, `events` the rest. It comes before
    /// the second half: the frame that tells a peer its flow id must not be answered before the answer would be let in.
    #[inline]
    pub fn take_events<T: Transport + ?Sized>(&mut self, transport: &mut T, events: &mut dyn FnMut(Event)) {
        if self.core.has_events() {
            self.give_events(transport, events);
        }
    }

    /// The second half: what is to leave, and one doorbell for all of it. Then
    /// the clock is read, and what could wait is looked at: while the frames
    /// are on their way. A turn that brought something and has nothing to send
    /// leaves that to the next, which probably has the answer to send.
    #[inline]
    pub fn exhale<T: Transport + ?Sized>(&mut self, now: impl FnOnce() -> Time, transport: &mut T) -> usize {
        self.hand_over(BURST, transport);
        transport.flush();
        self.is_full = false;
        let sent = mem::take(&mut self.sent);
        let received = mem::take(&mut self.received);
        let postpone = sent == 0 && received > 0 && !self.postponed && !self.core.has_acks();
        // What has left is to be noted, whatever was noted before it, and so is
        // what handlers released of earlier turns' messages.
        let settled = mem::take(&mut self.settled) && sent == 0 && !self.core.has_touched();
        if !settled && !postpone {
            let now = now();
            self.core.settle(now);
            self.due = self.core.sleep_until() <= now;
            if now >= self.notices_at {
                self.take_notices(now, transport);
            }
        }
        self.postponed = postpone;
        sent
    }

    /// A message was admitted: let its frame go to the transport while it is in
    /// the nearest cache, where nothing is before it. It leaves with the next
    /// doorbell, as do others.
    #[inline]
    pub fn pass<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        if !self.is_full {
            self.hand_over(1, transport);
        }
    }

    /// So many frames, if there are, to the transport.
    #[inline(always)]
    fn hand_over<T: Transport + ?Sized>(&mut self, most: usize, transport: &mut T) {
        let most = self.sent + most;
        let Engine { core, pool, .. } = self;
        while self.sent < most && core.has_output() {
            match core.transmit(&mut || pool.take(), |to, frame| transport.send(to, frame)) {
                Some(true) => self.sent += 1,
                Some(false) => {
                    self.is_full = true;
                    break;
                }
                None => break,
            }
        }
    }

    #[inline]
    fn look_at_timers<T: Transport + ?Sized>(&mut self, now: Time, transport: &mut T) {
        self.due = false;
        self.core.settle(now);
        if self.core.sleep_until() <= now {
            self.core.on_timeout(now);
        }
        if now >= self.notices_at {
            self.take_notices(now, transport);
        }
    }

    #[cold]
    fn take_notices<T: Transport + ?Sized>(&mut self, now: Time, transport: &mut T) {
        self.notices_at = now + NOTICES;
        self.poll_notices(transport, &mut |_| ());
        // It may have been opened anew: what is in frames of the old pool is copied.
        let pool = &transport.caps().pool;
        if !self.pool.is(pool) {
            self.pool = pool.clone();
        }
    }

    /// Ask the transport for notices. Why nothing leaves or arrives now, if it says so.
    pub fn link_error<T: Transport + ?Sized>(&mut self, transport: &mut T) -> Option<String> {
        let mut error = None;
        self.poll_notices(transport, &mut |why| error = Some(why.to_owned()));
        error
    }

    fn poll_notices<T: Transport + ?Sized>(&mut self, transport: &mut T, link_error: &mut dyn FnMut(&str)) {
        transport.poll_notices(&mut |notice| match notice {
            Notice::UnknownFlow(flow) => self.core.on_stray(flow),
            Notice::PeerGone(address) => self.core.on_gone(address),
            Notice::NewPath(_) => (),
            Notice::LinkError(why) => link_error(why),
        });
    }

    #[cold]
    fn give_events<T: Transport + ?Sized>(&mut self, transport: &mut T, events: &mut dyn FnMut(Event)) {
        while let Some(event) = self.core.poll_event() {
            let command = match &event {
                &Event::Steer(flow, open) => Command::Steer { flow, open },
                &Event::WayBack(flow, ref template) => Command::RejectTemplate { flow, template },
                &Event::Full(is_full) => Command::RxFull(is_full),
                &Event::Silent(to) => Command::ReportLoss(to),
                Event::Promised => Command::RxCredit(self.core.promised()),
                _ => {
                    events(event);
                    continue;
                }
            };
            // Only the address of a peer can be refused.
            _ = transport.control(command);
        }
    }

    /// This node goes: what was sent is acknowledged, then every peer hears what has arrived here. A peer that is silent is not
    /// waited for long; one whose queue is full, since its handlers take their time, is given its patience.
    pub fn shut_down<T: Transport + ?Sized>(&mut self, now: impl Fn() -> Time, transport: &mut T) {
        let until = now() + self.core.config().patience;
        self.turn_while(&now, until, transport, |core| core.kept());
        self.core.shut_down();
        self.turn_while(&now, until, transport, Core::leaving);
        self.turn_while(&now, until, transport, |core| core.has_output() as usize);
    }

    /// Turn until nothing is left, or it does not get less for [`FAREWELL`]. While the transport is full it goes on, at most
    /// until this time.
    fn turn_while<T: Transport + ?Sized>(
        &mut self,
        now: &impl Fn() -> Time,
        until: Time,
        transport: &mut T,
        left: impl Fn(&Core<Frame>) -> usize,
    ) {
        // A clock that is set by hand may stand still.
        const TURNS: usize = 64;
        let begin = now();
        let (mut since, mut before, mut turns) = (begin, usize::MAX, 0);
        loop {
            let (time, count) = (now(), left(&self.core));
            let is_full = self.core.has_output() && time < until;
            if is_full || count < before {
                since = time;
            }
            if count < before {
                (before, turns) = (count, 0);
            }
            let stands = time == begin;
            if count == 0 || time - since >= FAREWELL || (stands && turns >= TURNS) {
                return;
            }
            turns += 1;
            if self.turn(now, transport, &mut |_| ()).is_idle() && !stands && (is_full || time > since) {
                std::thread::sleep(PAUSE);
            }
        }
    }
}
