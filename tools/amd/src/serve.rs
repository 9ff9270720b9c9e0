//! The daemon's loop: it runs the turns of the switch, and between them the housekeeping: programs attach and leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use am_api::transports;
use am_ring::{Layout, Pool};
use am_transport::{Caps, Command, Transport};
use am_wire::Address;
use am_wire::control::Control;

use crate::DaemonError;
use crate::budget::Budgets;
use crate::daemon::{Daemon, DaemonOptions, LISTENER, PROCESSES, VISITOR, WIRE};
use crate::errors::system;
use crate::folder::Folder;
use crate::listener::{Listener, Watched};
use crate::outage::{Line, Outage};
use crate::random::Random;
use crate::state::StateFile;
use crate::switch::Switch;

/// The interval of housekeeping.
const HOUSEKEEPING: Duration = Duration::from_millis(1);

/// One turn in this many reads the clock.
const TURNS_TO_CLOCK: u32 = 64;

/// The number of turns without a frame after which the thread yields the core, and after which it sleeps.
const TURNS_TO_YIELD: u32 = 64;
const TURNS_TO_SLEEP: u32 = 256;

/// The longest sleep.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The sleep while a wire has no room, or has no descriptor to wait on.
const SHORT_SLEEP: Duration = Duration::from_micros(200);

/// The sleep while a visitor waits because of its user's rate limit, or for a queue.
const VISIT_SLEEP: Duration = Duration::from_millis(10);

/// The frames in the pool of a daemon without a wire. One for each port would be enough.
const LOCAL_FRAMES: usize = 256;

/// The longest frame of a daemon without a wire.
const LOCAL_MAX_FRAME: usize = 16 * 1024;

impl Daemon {
    /// Open the wire and the socket.
    ///
    /// # Errors
    /// See [`DaemonError`].
    pub fn open(options: DaemonOptions) -> Result<Daemon, DaemonError> {
        // On a combination of transports, nodes know a peer by one address on each, and cannot address its ports.
        if let Some(wire) = options.wire.as_ref().filter(|wire| transports::split(wire).len() > 1) {
            return Err(DaemonError::SeveralWires(wire.clone()));
        }
        // Take the lock before opening the wire: a second daemon must not disturb the wire of the first.
        let folder = Folder::of(&options.socket)?;
        let state = StateFile::open(&options.socket, &folder)?;
        let mut wire = options.wire.as_deref().map(transports::open).transpose()?;
        for peer in &options.peers {
            if let Some(wire) = &mut wire {
                let why = |source| DaemonError::Peer { peer: peer.clone(), source };
                wire.control(Command::AddPeer(peer)).map_err(why)?;
            }
        }
        Daemon::start(options, wire, folder, state)
    }

    /// Open a daemon on a wire that is already open.
    ///
    /// # Errors
    /// See [`DaemonError`].
    pub fn open_on(options: DaemonOptions, wire: Box<dyn Transport>) -> Result<Daemon, DaemonError> {
        let folder = Folder::of(&options.socket)?;
        let state = StateFile::open(&options.socket, &folder)?;
        Daemon::start(options, Some(wire), folder, state)
    }

    fn start(
        options: DaemonOptions,
        wire: Option<Box<dyn Transport>>,
        folder: Arc<Folder>,
        mut state: StateFile,
    ) -> Result<Daemon, DaemonError> {
        let mut random = Random::new().map_err(system("cannot read random numbers"))?;
        let caps = wire.as_ref().map(|wire| wire.caps().clone());
        let max_frame = caps.as_ref().map_or(LOCAL_MAX_FRAME, |caps| caps.max_frame).min(am_vnic::MAX_FRAME);
        if let Some(caps) = caps.as_ref().filter(|_| max_frame < Control::MAX_FRAME) {
            return Err(DaemonError::ShortFrames { name: caps.name.clone(), most: max_frame });
        }
        let pool = frames_of(caps.as_ref(), max_frame)?;
        let saved = state.load();
        let fresh = || Address::from_u64(random.number() & 0xfdff_ffff_ffff | 0x0200_0000_0000);
        let own = caps.as_ref().map_or_else(fresh, |caps| caps.address);
        // Programs that attach again keep their addresses, even if the wire's own address has changed.
        let base = saved.base.filter(|_| !saved.ports.is_empty()).unwrap_or(own);
        let listener = Listener::new(&options.socket, folder, (options.mode, options.group), &mut random)?;
        state.begin(base, &saved)?;
        let watched = watch(&listener, caps.as_ref()).map_err(system("cannot make a descriptor to wait on"))?;
        let mut daemon = Daemon {
            can_wait: caps.as_ref().is_none_or(|caps| caps.wake.is_some()),
            wire: caps.as_ref().map_or("local".into(), |caps| format!("{}, {}", caps.name, caps.mode)),
            hears_all: caps.as_ref().is_none_or(|caps| caps.hears_all),
            switch: Switch::new(wire, pool, base, options.ethertype, state),
            watched,
            listener,
            access: options.access,
            random,
            visits: vec![],
            budgets: Budgets::default(),
            refused: None,
            accept_at: None,
            next_port: 0,
            max_frame,
            trouble: String::new(),
            outage: Outage::default(),
            ready: vec![],
            turns: 0,
            idle_turns: 0,
            leaves_state: false,
            next_look: Instant::now(),
        };
        daemon.restore(saved);
        daemon.switch.state.end_restore()?;
        Ok(daemon)
    }

    /// Serve until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Relaxed) {
            self.turn();
            if self.idle_turns > TURNS_TO_SLEEP {
                self.sleep();
            } else if self.idle_turns > TURNS_TO_YIELD {
                std::thread::yield_now();
            }
        }
    }

    /// Run one turn. Returns the number of forwarded frames.
    pub fn turn(&mut self) -> usize {
        let moved = self.switch.turn();
        self.idle_turns = if moved > 0 { 0 } else { self.idle_turns.saturating_add(1) };
        if !self.switch.claims.is_empty() {
            self.decide_claims();
        }
        while let Some((port, why)) = self.switch.offenders.pop() {
            self.detach_offender(port, why);
        }
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_TO_CLOCK) && Instant::now() >= self.next_look {
            self.do_housekeeping(Duration::ZERO);
        }
        moved
    }

    /// Keep the state file at the end if programs are attached: they continue with the next daemon at this socket.
    pub fn leave_state(&mut self) {
        // First remove the programs that have ended by now.
        self.attend();
        self.leaves_state = self.switch.schedule.ports().next().is_some();
    }

    /// Do the housekeeping now, which [`run`](Self::run) does about once a millisecond. For a program that calls [`turn`](Self::turn)
    /// itself.
    pub fn attend(&mut self) {
        self.do_housekeeping(Duration::ZERO);
    }

    /// Sleep until a program or the wire wakes the daemon, or the longest sleep is over.
    fn sleep(&mut self) {
        let is_short = !self.can_wait || self.switch.has_blocked_frame();
        self.switch.before_sleep();
        if self.switch.turn() == 0 && self.switch.claims.is_empty() {
            let longest = if self.has_waiting() { VISIT_SLEEP } else { MAX_SLEEP };
            self.do_housekeeping(if is_short { SHORT_SLEEP } else { longest });
        }
        self.switch.after_sleep();
        self.idle_turns = 0;
    }

    /// Housekeeping: handle programs that attach or leave, and changes of the wire. Waits for an event for at most `timeout`.
    pub(crate) fn do_housekeeping(&mut self, timeout: Duration) {
        let mut ready = std::mem::take(&mut self.ready);
        self.watched.wait(timeout, &mut ready);
        for &number in &ready {
            match number {
                LISTENER => self.accept(),
                WIRE => (),
                VISITOR => self.read_visitors(),
                process @ PROCESSES.. => self.check_process((process - PROCESSES) as usize),
                port => self.read_packets(port as usize),
            }
        }
        self.ready = ready;
        let now = Instant::now();
        self.next_look = now + HOUSEKEEPING;
        self.check_visitors(now);
        for (uid, lines) in self.budgets.left_out(now) {
            tracing::warn!("{lines} lines about programs of user {uid} were left out: there were too many");
        }
        self.switch.send_heartbeats(now);
        self.switch.expired(now).into_iter().for_each(|port| self.detach(port));
        let trouble = self.switch.poll_wire().unwrap_or_default();
        if trouble != self.trouble {
            self.trouble = trouble;
            self.report_trouble();
        }
        match self.outage.look(!self.trouble.is_empty(), now) {
            Some(Line::Failed) => tracing::warn!("wire {}: {}", self.wire, self.trouble),
            Some(Line::Works) => tracing::info!("wire {}: it works again", self.wire),
            None => (),
        }
    }
}

/// The pool of the frames into which the programs' frames are copied: the wire's, or one on the heap if there is no wire.
fn frames_of(caps: Option<&Caps>, max_frame: usize) -> Result<Pool, DaemonError> {
    match caps {
        Some(caps) => Ok(caps.pool.clone()),
        None => Ok(Pool::heap(Layout { frames: LOCAL_FRAMES, stride: max_frame, headroom: 0 })?),
    }
}

/// The descriptors on which the daemon waits before programs have attached: the listener, and those of the wire.
fn watch(listener: &Listener, caps: Option<&Caps>) -> std::io::Result<Watched> {
    let watched = Watched::new()?;
    watched.add(listener.socket(), LISTENER)?;
    let wakes = caps.and_then(|caps| caps.wake.as_ref());
    wakes.into_iter().flatten().try_for_each(|descriptor| watched.add(descriptor, WIRE))?;
    Ok(watched)
}
