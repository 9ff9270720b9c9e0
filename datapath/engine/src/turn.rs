//! The loop: one turn, on one page.

use std::time::Duration;
use std::{io, mem};

use am_proto::{Command as Output, Core, Event, Time};
use am_ring::{Frame, Pool};
use am_transport::{Caps, Command, Notice, Transport};
use am_wire::Address;

use crate::heartbeat::Heartbeat;

/// The most frames that a turn receives, and the most that it sends.
///
/// A turn handles one burst in each direction, even if more is left. So acknowledgements leave during a flood of arrivals,
/// and credits arrive while the send queue is full.
pub const BURST: usize = 64;

/// A core, and the memory of its frames.
pub struct Engine {
    core: Core<Frame>,
    pool: Pool,
    /// The transport was full when it was last handed a frame. For how long this node may then sleep.
    no_room: Option<Duration>,
    /// Frames handed to the transport since the last doorbell.
    sent: usize,
    /// Frames that this turn has received.
    received: usize,
    /// Whether `inhale` received no frame and left none to send. Then `exhale` has no deferred work, unless handlers added
    /// some.
    inhaled_nothing: bool,
    /// Whether the last turn found nothing, and left nothing.
    is_at_rest: bool,
    /// Whether the last turn postponed its deferred work.
    postponed: bool,
    /// Whether it did so without having sent a frame.
    postponed_unsent: bool,
    /// Whether a timer was due when the deferred work was last done.
    timer_due: bool,
    /// When the transport is asked for notices again.
    notices_at: Time,
    /// Sends heartbeats for this node while it does not poll.
    heartbeat: Option<Box<Heartbeat>>,
}

/// How long turns that send frames postpone their deferred work. A turn that does nothing always does it.
const MAX_POSTPONED: Duration = Duration::from_micros(20);

/// The interval between two polls of the transport's notices.
const NOTICES: Duration = Duration::from_millis(1);

/// For how long [`Engine::lateness`] reports that the node was late.
const REPORT_LATENESS: Duration = Duration::from_secs(10);

/// A node that shuts down stops waiting after this time without progress. It is long enough for sending a lost frame twice
/// more.
const SHUTDOWN_IDLE_LIMIT: Duration = Duration::from_millis(13);
/// The pause between two turns of a node that shuts down. Its peer may need the processor.
const SHUTDOWN_PAUSE: Duration = Duration::from_micros(50);

/// What a turn that received no frame checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollScope {
    /// Frames, and also the clock and the timers.
    Everything,
    /// Only frames. For loops that turn again at once: a shorter turn notices a frame sooner.
    FramesOnly,
}

impl PollScope {
    /// For a loop that turns again at once. `number` counts its idle turns in a row: every eighth turn checks everything, the
    /// others only frames.
    #[inline]
    pub fn of_idle_turn(number: u32) -> PollScope {
        if number.is_multiple_of(8) { PollScope::Everything } else { PollScope::FramesOnly }
    }
}

/// The results of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Frames received.
    pub received: usize,
    /// Frames handed to the transport.
    pub sent: usize,
}

impl Turn {
    /// Whether the turn neither received nor sent a frame.
    pub fn is_idle(&self) -> bool {
        *self == Turn::default()
    }
}

impl Engine {
    /// The engine of a node. `pool` is the transport's: see [`am_transport::Caps`].
    pub fn new(core: Core<Frame>, pool: Pool) -> Self {
        Engine {
            core,
            pool,
            no_room: None,
            sent: 0,
            received: 0,
            inhaled_nothing: false,
            is_at_rest: false,
            postponed: false,
            postponed_unsent: false,
            timer_due: false,
            notices_at: Time::default(),
            heartbeat: None,
        }
    }

    /// From now on, another thread sends heartbeats for this node while no turn runs: see [`am_transport::OutOfBand`].
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start_heartbeat(&mut self, caps: &Caps) -> io::Result<()> {
        self.heartbeat = Some(Box::new(Heartbeat::start(self.core.heartbeat(), caps)?));
        Ok(())
    }

    /// For how long this node did not poll although frames waited. `None` if that ended more than ten seconds ago.
    pub fn lateness(&self) -> Option<Duration> {
        let (at, late) = self.heartbeat.as_ref()?.late?;
        (self.core.now() - at < REPORT_LATENESS).then_some(late)
    }

    /// How many heartbeats another thread has sent for this node.
    pub fn heartbeats(&self) -> u64 {
        self.heartbeat.as_ref().map_or(0, |heartbeat| heartbeat.sent())
    }

    /// The program is about to wait on the transport's descriptors. Until the next turn it is late only if a frame waits.
    pub fn before_wait<T: Transport + ?Sized>(&self, transport: &mut T) {
        self.heartbeat.iter().for_each(|heartbeat| heartbeat.note_wait());
        // Only commands with a peer address can fail.
        _ = transport.control(Command::BeforeSleep);
    }

    /// The protocol's state.
    pub fn core(&self) -> &Core<Frame> {
        &self.core
    }

    /// The protocol, for calls from above. See [`Core`] for the classes of its calls: getters, from below, from
    /// above and outputs.
    pub fn core_mut(&mut self) -> &mut Core<Frame> {
        &mut self.core
    }

    /// The pool of frames to send.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The latest time for the next turn. If work is left, this is the zero time, which means now.
    #[inline]
    pub fn sleep_until(&self) -> Time {
        if self.postponed || self.sent > 0 || self.core.has_commands() || self.core.has_events() {
            return Time::default();
        }
        let timer = self.core.sleep_until();
        match (self.core.has_output(), self.no_room) {
            (true, None) => Time::default(),
            (true, Some(room_within)) => timer.min(self.core.now() + room_within),
            (false, _) => timer,
        }
    }

    /// Whether the last turn postponed its deferred work, and so did not read the clock.
    #[inline]
    pub fn is_postponed(&self) -> bool {
        self.postponed
    }

    /// Run one turn. It runs each stage for a burst of frames, and not all stages for each frame, as the NIC firmware of Fast
    /// Messages does (Pakin et al., §4.2, figure 2b). `events` gets the events other than messages.
    pub fn turn<T: Transport + ?Sized>(
        &mut self,
        now: impl Fn() -> Time,
        transport: &mut T,
        events: &mut dyn FnMut(Event),
    ) -> Turn {
        let received = self.inhale(PollScope::Everything, &now, transport);
        while let Some(event) = self.core.poll_event() {
            events(event);
        }
        let sent = self.exhale(&now, transport);
        Turn { received, sent }
    }

    /// The first half: receive a burst. Then check the timers if one is due, or if nothing has arrived and `scope` allows
    /// it. The caller runs handlers after it, so their replies leave with the second half's doorbell.
    ///
    /// Timers are checked only after a receive, because the missing acknowledgement may have arrived while handlers ran.
    #[inline(always)]
    pub fn inhale<T: Transport + ?Sized>(
        &mut self,
        scope: PollScope,
        now: impl FnOnce() -> Time,
        transport: &mut T,
    ) -> usize {
        self.received = transport.receive(BURST, &mut |frame| self.core.on_frame(frame));
        self.end_inhale(scope, now, transport)
    }

    #[inline(always)]
    fn end_inhale<T: Transport + ?Sized>(
        &mut self,
        scope: PollScope,
        now: impl FnOnce() -> Time,
        transport: &mut T,
    ) -> usize {
        self.inhaled_nothing = self.received == 0 && !self.core.has_output();
        if self.timer_due || (self.inhaled_nothing && (scope == PollScope::Everything || self.postponed)) {
            self.check_timers(now(), transport);
        }
        self.received
    }

    /// The time until which only a frame or a call brings work, if the last turn found nothing.
    #[inline]
    pub fn rest_until(&self) -> Option<Time> {
        self.is_at_rest.then(|| self.core.sleep_until().min(self.notices_at))
    }

    /// As [`inhale`](Self::inhale), if the core has not been called since [`rest_until`](Self::rest_until) gave this time. `None` if nothing
    /// has arrived and no timer is due: then the turn is over.
    #[inline(always)]
    pub fn inhale_at_rest<T: Transport + ?Sized>(
        &mut self,
        scope: PollScope,
        until: Time,
        now: impl Fn() -> Time,
        transport: &mut T,
    ) -> Option<usize> {
        self.received = transport.receive(BURST, &mut |frame| self.core.on_frame(frame));
        if self.received == 0 && self.is_early(scope, until, &now) {
            transport.flush();
            return None;
        }
        Some(self.end_inhale(scope, now, transport))
    }

    /// Whether the scope leaves the clock out, or it is earlier than that.
    #[inline]
    fn is_early(&mut self, scope: PollScope, until: Time, now: impl Fn() -> Time) -> bool {
        if scope == PollScope::FramesOnly {
            return true;
        }
        let now = now();
        self.core.pass_time(now);
        now < until
    }

    /// The second half: pass commands to the transport, send a burst, and ring one doorbell for it. Then read the clock and do
    /// the deferred work, while the NIC sends. Busy turns postpone it for a while: the acknowledgements of several turns cost no more
    /// than those of one. A turn that received frames and has none to send postpones it once, before it reads the clock.
    #[inline]
    pub fn exhale<T: Transport + ?Sized>(&mut self, now: impl FnOnce() -> Time, transport: &mut T) -> usize {
        if self.core.has_commands() {
            self.pass_commands(transport);
        }
        self.no_room = None;
        self.hand_over(BURST, transport);
        transport.flush();
        let (sent, received) = (mem::take(&mut self.sent), mem::take(&mut self.received));
        // The core has deferred work after sent frames, and after handlers released messages of earlier turns.
        if mem::take(&mut self.inhaled_nothing) && sent == 0 && !self.core.has_deferred() {
            (self.postponed, self.postponed_unsent, self.is_at_rest) = (false, false, true);
            return 0;
        }
        self.is_at_rest = false;
        let may_wait = self.core.may_postpone();
        // The next turn probably has an answer to send first.
        self.postponed_unsent = may_wait && sent == 0 && received > 0 && !self.postponed_unsent;
        self.postponed = self.postponed_unsent;
        if !self.postponed {
            let now = now();
            self.postponed = may_wait && sent > 0 && now - self.core.now() < MAX_POSTPONED;
            if self.postponed {
                self.core.note_sent(now);
                return sent;
            }
            self.core.run_deferred(now);
            self.timer_due = self.core.sleep_until() <= now;
            if now >= self.notices_at {
                self.take_notices(now, transport);
            }
        }
        sent
    }

    /// The core has admitted a message. Unless the transport is full, hand it the next frame now. If no other frame waits,
    /// this is the message's frame, which is still in the L1 cache. It leaves with the next doorbell.
    #[inline]
    pub fn send_early<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        if self.no_room.is_none() {
            self.hand_over(1, transport);
        }
    }

    /// Hand a frame that is not the core's to the transport. It leaves with the next doorbell. `false` if there was no room.
    pub fn send_frame<T: Transport + ?Sized>(&mut self, to: Address, frame: &Frame, transport: &mut T) -> bool {
        let is_sent = transport.send(to, frame);
        self.sent += usize::from(is_sent);
        if !is_sent {
            self.no_room = Some(transport.room_within());
        }
        is_sent
    }

    /// Hand up to `most` frames to the transport.
    #[inline(always)]
    fn hand_over<T: Transport + ?Sized>(&mut self, most: usize, transport: &mut T) {
        let Engine { core, pool, .. } = self;
        let done = core.transmit(most, &mut || pool.take(), |to, frame| transport.send(to, frame));
        self.sent += done.taken;
        if done.is_refused {
            self.no_room = Some(transport.room_within());
        }
    }

    #[inline(always)]
    fn check_timers<T: Transport + ?Sized>(&mut self, now: Time, transport: &mut T) {
        self.timer_due = false;
        self.core.run_deferred(now);
        if self.core.sleep_until() <= now {
            self.core.on_timeout(now);
        }
        if now >= self.notices_at {
            self.take_notices(now, transport);
        }
    }

    #[cold]
    fn take_notices<T: Transport + ?Sized>(&mut self, now: Time, transport: &mut T) {
        let before = mem::replace(&mut self.notices_at, now + NOTICES);
        if let Some(heartbeat) = &mut self.heartbeat
            && heartbeat.note_poll()
        {
            heartbeat.late = Some((now, now - before));
            self.core.on_late();
        }
        self.poll_notices(transport, &mut |_| ());
        // The transport may have reopened itself with a new pool. Messages in frames of the old pool are copied.
        let pool = &transport.caps().pool;
        if !self.pool.is_same_pool(pool) {
            self.pool = pool.clone();
        }
        // The transport's NIC may have a new address.
        let address = transport.caps().address;
        if self.core.config().address != address {
            self.core.set_address(now, address);
            // The heartbeat's frame has the old address, so start a new heartbeat. If no thread starts, the old one stays.
            if self.heartbeat.is_some() {
                _ = self.start_heartbeat(transport.caps());
            }
        }
    }

    /// Poll the transport's notices. Returns its link error, if it has one.
    pub fn link_error<T: Transport + ?Sized>(&mut self, transport: &mut T) -> Option<String> {
        let mut error = None;
        self.poll_notices(transport, &mut |why| error = Some(why.to_owned()));
        error
    }

    fn poll_notices<T: Transport + ?Sized>(&mut self, transport: &mut T, link_error: &mut dyn FnMut(&str)) {
        transport.poll_notices(&mut |notice| match notice {
            Notice::UnknownFlow(flow) => self.core.on_unknown_flow(flow),
            Notice::PeerGone(address) => self.core.on_peer_gone(address),
            Notice::PeerAlive(address) => self.core.on_peer_alive(address),
            Notice::StrangerAlive(address) => self.core.on_stranger_alive(address),
            Notice::NewPath(to) => self.core.on_new_path(to),
            Notice::LinkError(why) => link_error(why),
        });
    }

    #[cold]
    fn pass_commands<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        while let Some(output) = self.core.poll_command() {
            let introduction;
            let command = match output {
                Output::Steer(flow, open) => Command::Steer { flow, open },
                Output::RejectTemplate(flow, ref template) => Command::RejectTemplate { flow, template },
                Output::RxFull(is_full) => Command::RxFull(is_full),
                Output::RxCredit(frames) => Command::RxCredit(frames),
                Output::ReportLoss(to) => Command::ReportLoss(to),
                Output::AskAlive(to) => Command::AskAlive(to),
                Output::Introduce => {
                    introduction = self.core.introduction();
                    Command::Introduce(&introduction)
                }
            };
            // Only commands with a peer address can fail.
            _ = transport.control(command);
        }
    }

    /// Shut this node down. First wait until all sent messages are acknowledged. Then close every flow, which reports to
    /// each peer which of its messages have arrived. The wait for a silent peer ends after 13 ms. A peer whose queue is full,
    /// because its handlers take long, has the configured patience instead. Returns how many messages were not acknowledged.
    pub fn shut_down<T: Transport + ?Sized>(&mut self, now: impl Fn() -> Time, transport: &mut T) -> usize {
        let patience = self.core.config().patience;
        // Only commands with an address can fail.
        _ = transport.control(Command::Leave(patience / 2));
        let until = now() + patience;
        self.turn_while(&now, until, transport, |core| core.kept_messages());
        let unacknowledged = self.core.kept_messages();
        self.core.shut_down();
        self.turn_while(&now, until, transport, Core::closing_flows);
        self.core.say_farewell();
        self.turn_while(&now, until, transport, |core| core.has_output() as usize);
        unacknowledged
    }

    /// Turn until `left` returns 0, or has not fallen for [`SHUTDOWN_IDLE_LIMIT`]. Before `until`, this limit is suspended
    /// while there are frames to send.
    fn turn_while<T: Transport + ?Sized>(
        &mut self,
        now: &impl Fn() -> Time,
        until: Time,
        transport: &mut T,
        left: impl Fn(&Core<Frame>) -> usize,
    ) {
        // A manual clock may stand still. Then this many turns without progress are the limit.
        const MAX_TURNS: usize = 64;
        let begin = now();
        let (mut since, mut before, mut turns) = (begin, usize::MAX, 0);
        loop {
            let (time, count) = (now(), left(&self.core));
            let is_sending = self.core.has_output() && time < until;
            if is_sending || count < before {
                since = time;
            }
            if count < before {
                (before, turns) = (count, 0);
            }
            let clock_stands = time == begin;
            if count == 0 || time - since >= SHUTDOWN_IDLE_LIMIT || (clock_stands && turns >= MAX_TURNS) {
                return;
            }
            turns += 1;
            if self.turn(now, transport, &mut |_| ()).is_idle() && !clock_stands && (is_sending || time > since) {
                std::thread::sleep(SHUTDOWN_PAUSE);
            }
        }
    }
}
