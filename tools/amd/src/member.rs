//! A program, or a place that is kept for one after the daemon has restarted.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_vnic::Port;
use am_vnic::protocol::Secret;
use am_wire::Address;

use crate::budget::{BROADCASTS_A_SECOND, Bucket, MAX_BROADCASTS};
use crate::heartbeat::Heartbeat;
use crate::judge::{Guard, Refusal};
use crate::process::Process;

/// A port with this many refused frames at once is detached. Honest programs have few: frames that were under way when a
/// flow ended.
pub const MAX_REFUSED: u64 = 65_536;

/// Turns without a visit after a refused frame.
pub const PAUSE: u32 = 4;

/// A refused frame counts for this long.
const REFUSED_INTERVAL: Duration = Duration::from_millis(1);

/// Who runs a program, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub uid: u32,
    /// The number of the user's first group.
    pub gid: u32,
    /// The process; 0 while none is attached, and for one outside of the daemon's PID namespace.
    pub pid: i32,
}

impl fmt::Display for Owner {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            0 => write!(to, "a process of user {}", self.uid),
            pid => write!(to, "process {pid} of user {}", self.uid),
        }
    }
}

/// What a port has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortCounts {
    /// Frames from the program that passed.
    pub(crate) sent: u64,
    /// Frames for the program that it got.
    pub(crate) delivered: u64,
    /// Frames for the program that were dropped, because its lane had no room.
    pub(crate) dropped: u64,
    /// Flows that were granted and did not fit the table.
    pub(crate) grants_refused: u64,
    /// By reason: frames from the program that were refused.
    pub(crate) refused: [u64; Refusal::ALL.len()],
}

/// A port of the switch.
#[derive(Debug)]
pub(crate) struct Member {
    /// `None` while its program is expected to attach again.
    pub(crate) port: Option<Port>,
    pub(crate) guard: Guard,
    pub(crate) owner: Owner,
    pub(crate) process: Process,
    pub(crate) secret: Secret,
    /// The attempts of a turn are a multiple of it.
    pub(crate) weight: u32,
    /// The queue of the NIC that it has for itself.
    pub(crate) queue: Option<u32>,
    /// Why it has none, though a rule allows it one.
    pub(crate) no_queue: Option<String>,
    /// A frame for the wire that the wire did not take.
    pub(crate) held: Option<Frame>,
    /// The turns until it is visited again.
    pub(crate) pause: u32,
    /// Whether it was quiet in the last turn, and has sent no message since.
    pub(crate) was_quiet: bool,
    /// Whether its last message was for another port. The next one probably is, too.
    pub(crate) relays: bool,
    /// Why its own frames do not leave: its name is refused.
    pub(crate) trouble: String,
    /// The reason that it was told last.
    pub(crate) told: String,
    /// When a place without a program is given up.
    pub(crate) kept_until: Option<Instant>,
    /// The program's process, also of one that is expected: readable when it has ended.
    pub(crate) runs: Option<OwnedFd>,
    /// The ports that have had control frames from it, or it from them, a bit each: they learn of its end.
    pub(crate) known: u128,
    /// Ports that have ended while its program was expected.
    pub(crate) missed: Vec<Address>,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) counts: PortCounts,
    broadcasts: Bucket,
    offences: Offences,
}

/// A leaky bucket of refused frames.
#[derive(Debug)]
struct Offences {
    level: u64,
    since: Instant,
}

impl Member {
    pub(crate) fn new(port: Option<Port>, guard: Guard, owner: Owner, secret: Secret, weight: u32) -> Member {
        Member {
            port,
            guard,
            owner,
            process: Process::default(),
            secret,
            weight,
            queue: None,
            no_queue: None,
            held: None,
            pause: 0,
            was_quiet: false,
            relays: false,
            trouble: String::new(),
            told: String::new(),
            kept_until: None,
            runs: None,
            known: 0,
            missed: vec![],
            heartbeat: Heartbeat::default(),
            counts: PortCounts::default(),
            broadcasts: Bucket::new(Instant::now()),
            offences: Offences { level: 0, since: Instant::now() },
        }
    }

    /// Whether there is nothing to do for it: one look at an idle port.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.held.is_none() && self.port.as_ref().is_none_or(Port::is_quiet)
    }

    /// Whether the message that was just taken came alone: the lane was empty in the last turn, so messages probably come one at a time. A
    /// second look now would cost as much as the message.
    #[inline]
    pub(crate) fn came_alone(&mut self) -> bool {
        std::mem::take(&mut self.was_quiet) && self.port.as_ref().is_some_and(|port| !port.has_more())
    }

    /// Whether it may send a frame to all nodes now: each of them wakes all programs. One too many is no offence.
    #[cold]
    pub(crate) fn may_broadcast(&mut self) -> bool {
        let has_room = self.broadcasts.take(MAX_BROADCASTS, BROADCASTS_A_SECOND, Instant::now());
        if !has_room {
            self.counts.refused[Refusal::TooOften as usize] += 1;
            self.pause = PAUSE;
        }
        has_room
    }

    /// Count a refused frame. Returns whether there were too many.
    #[cold]
    pub(crate) fn refuse(&mut self, why: Refusal) -> bool {
        self.counts.refused[why as usize] += 1;
        self.pause = PAUSE;
        let Offences { level, since } = &mut self.offences;
        *level += 1;
        // The clock is read only now and then: a frame in 256.
        if *level % 256 == 0 {
            let forgotten = since.elapsed().as_nanos() / REFUSED_INTERVAL.as_nanos();
            if forgotten > 0 {
                *since = Instant::now();
                *level = level.saturating_sub(forgotten as u64);
            }
        }
        *level >= MAX_REFUSED
    }
}
