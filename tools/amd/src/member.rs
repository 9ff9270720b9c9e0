//! The state of a port: of an attached program, or of one that is expected to attach again after the daemon has restarted.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_vnic::Port;
use am_vnic::protocol::Secret;
use am_wire::Address;
use am_wire::control::Name;

use crate::budget::{BROADCASTS_A_SECOND, Bucket, MAX_BROADCASTS};
use crate::heartbeat::Heartbeat;
use crate::judge::{Guard, Refusal};
use crate::process::Process;

/// A port is detached when the bucket of its refused frames reaches this level. A correct program has few refused frames: those that were
/// in flight when a flow ended.
pub const MAX_REFUSED: u64 = 65_536;

/// The number of turns in which a port is not visited after a refused frame.
pub const PAUSE: u32 = 4;

/// The bucket of refused frames drains by one frame in this time.
const REFUSED_INTERVAL: Duration = Duration::from_millis(1);

/// The owner of a program, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub uid: u32,
    /// The number of the user's first group.
    pub gid: u32,
    /// The process id; 0 while no program is attached, and for a process outside of the daemon's PID namespace.
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

/// The counters of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortCounts {
    /// Frames from the program that were forwarded.
    pub(crate) sent: u64,
    /// Frames that were written to the program's lane.
    pub(crate) delivered: u64,
    /// Frames for the program that were dropped because its lane was full.
    pub(crate) dropped: u64,
    /// Grants that were refused because the granting port had reached its limit.
    pub(crate) grants_refused: u64,
    /// Frames from the program that were refused, by reason.
    pub(crate) refused: [u64; Refusal::ALL.len()],
}

/// A port of the switch.
#[derive(Debug)]
pub(crate) struct Member {
    /// `None` while its program is expected to attach again.
    pub(crate) port: Option<Port>,
    pub(crate) guard: Guard,
    /// The name that the program attached for. Its node takes it with its first beacon.
    pub(crate) reserved: Option<Name>,
    pub(crate) owner: Owner,
    pub(crate) process: Process,
    pub(crate) secret: Secret,
    /// The share of a turn: a visit of the port has [`ATTEMPTS`](crate::schedule::ATTEMPTS) times this many attempts.
    pub(crate) weight: u32,
    /// The queue of the NIC that is lent to the program.
    pub(crate) queue: Option<u32>,
    /// The reason for which the program has no queue, though a rule allows it one.
    pub(crate) no_queue: Option<String>,
    /// A frame for which the wire had no room. The port is not read before this frame has left.
    pub(crate) blocked: Option<Frame>,
    /// The number of turns until the port is visited again.
    pub(crate) pause: u32,
    /// Whether the port was quiet in the last turn, and has sent no message since.
    pub(crate) was_quiet: bool,
    /// Whether the port's last message was for another port: then the next one probably is, too, and the relay path is tried first.
    pub(crate) relays: bool,
    /// The reason for which the daemon forwards no frame of the port: its name is refused. Empty if the name is accepted.
    pub(crate) trouble: String,
    /// The trouble that was reported to the program last.
    pub(crate) reported: String,
    /// When a port whose program does not attach again is removed.
    pub(crate) kept_until: Option<Instant>,
    /// The pidfd of the program, attached or expected: readable when the process has ended.
    pub(crate) runs: Option<OwnedFd>,
    /// The ports that have exchanged control frames with this one, a bit each: they are notified of its end.
    pub(crate) known: u128,
    /// The addresses of ports that ended while the program was expected. It is notified of them when it attaches again.
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
            reserved: None,
            owner,
            process: Process::default(),
            secret,
            weight,
            queue: None,
            no_queue: None,
            blocked: None,
            pause: 0,
            was_quiet: false,
            relays: false,
            trouble: String::new(),
            reported: String::new(),
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

    /// Whether the port needs no visit. This is the whole cost of an idle port in a turn.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.blocked.is_none() && self.port.as_ref().is_none_or(|port| port.lanes.from.is_quiet())
    }

    /// Whether the message that was just read is a single one: the lane was empty in the last turn, and is empty now. Then messages probably
    /// arrive one at a time, and the visit ends here: reading the lane again would cost as much as the message.
    #[inline]
    pub(crate) fn came_alone(&mut self) -> bool {
        std::mem::take(&mut self.was_quiet) && self.port.as_ref().is_some_and(|port| !port.lanes.from.has_more())
    }

    /// Whether the port may broadcast a frame now. The rate is limited because each broadcast wakes all programs. A frame above the rate is
    /// dropped, and does not count towards [`MAX_REFUSED`].
    #[cold]
    pub(crate) fn may_broadcast(&mut self) -> bool {
        let has_room = self.broadcasts.take(MAX_BROADCASTS, BROADCASTS_A_SECOND, Instant::now());
        if !has_room {
            self.counts.refused[Refusal::TooOften as usize] += 1;
            self.pause = PAUSE;
        }
        has_room
    }

    /// Count a refused frame. Returns whether the port has reached [`MAX_REFUSED`].
    #[cold]
    pub(crate) fn refuse(&mut self, why: Refusal) -> bool {
        self.counts.refused[why as usize] += 1;
        self.pause = PAUSE;
        let Offences { level, since } = &mut self.offences;
        *level += 1;
        // Reading the clock is expensive, so one refused frame in 256 reads it.
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
