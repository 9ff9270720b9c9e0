//! What is compared: how the messages of a task reach another one, and what the tasks call.

/// How messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// PVM's direct route between two hosts: TCP.
    Direct,
    /// PVM's direct route between two tasks of one host.
    DirectNear,
    /// PVM's daemons.
    Daemon,
    /// Active messages over AF_XDP on the veth pair.
    Xdp,
    /// Active messages over UDP.
    Udp,
    /// Active messages between two tasks of one host.
    Shm,
}

impl Route {
    pub(crate) const ALL: [Route; 6] =
        [Route::Direct, Route::DirectNear, Route::Daemon, Route::Xdp, Route::Udp, Route::Shm];

    /// The name in the table, and for `pvm.sh`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Route::Direct => "direct",
            Route::DirectNear => "direct-near",
            Route::Daemon => "daemon",
            Route::Xdp => "xdp",
            Route::Udp => "udp",
            Route::Shm => "shm",
        }
    }

    /// What a reader has to know.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Route::Direct => "PVM's direct route, TCP over the veth pair; a segment of up to 64 KiB crosses it whole",
            Route::DirectNear => "the same between tasks of one host",
            Route::Daemon => "through PVM's daemons",
            Route::Xdp => {
                "active messages over AF_XDP on the veth pair, copy mode; a task has a queue alone, so each host has one task"
            }
            Route::Udp => "active messages over kernel UDP on the veth pair",
            Route::Shm => "active messages over shared memory between tasks of one host",
        }
    }

    /// Whether the messages are active messages.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Route::Xdp | Route::Udp | Route::Shm)
    }

    /// PVM's route between the same places.
    pub(crate) fn beside(self) -> Route {
        match self {
            Route::Shm | Route::DirectNear => Route::DirectNear,
            _ => Route::Direct,
        }
    }

    /// Whether a host may have several tasks.
    pub(crate) fn takes_many(self) -> bool {
        self != Route::Xdp
    }
}

/// What two tasks call, and how they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `pvm_psend`, `pvm_precv`. PVM sleeps while it waits; ours spins for 20 µs first.
    Psend,
    /// `pvm_psend`, and `pvm_nrecv` until something is there: both spin.
    PsendSpin,
    /// Packed in place and unpacked, `pvm_recv`.
    Sleep,
    /// Packed in place and unpacked, `pvm_nrecv` until something is there.
    Spin,
}

impl Way {
    pub(crate) const ALL: [Way; 4] = [Way::Psend, Way::PsendSpin, Way::Sleep, Way::Spin];

    /// The name for `pvm.sh`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Psend => "psend",
            Way::PsendSpin => "psend-spin",
            Way::Sleep => "sleep",
            Way::Spin => "spin",
        }
    }

    /// The name in the table.
    pub(crate) fn calls(self) -> &'static str {
        match self {
            Way::Psend => "psend, precv",
            Way::PsendSpin => "psend, nrecv until it is there",
            Way::Sleep => "pack, send, recv, unpack",
            Way::Spin => "pack, send, nrecv until it is there, unpack",
        }
    }
}

/// The calls of a group of this many tasks, on both hosts.
pub(crate) const GROUP: usize = 4;

/// The sizes that a group has, of those that are asked for: those of `group.c`.
pub(crate) const GROUP_SIZES: [usize; 3] = [8, 1024, 65536];

/// The collective calls, as `group.c` names them.
pub(crate) const COLLECTIVES: [&str; 3] = ["broadcast", "reduce", "all-to-all"];
