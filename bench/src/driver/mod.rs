//! The drivers: each makes a [`Channel`](crate::measure::Channel) of something that carries messages.

pub(crate) mod am;
pub(crate) mod cacheline;
pub(crate) mod dp;
pub(crate) mod dpdk;
pub(crate) mod lossy;
pub(crate) mod raw;
pub(crate) mod single;
pub(crate) mod sleeping;
mod transfers;
pub(crate) mod udp;
mod udp_batch;

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::ablation::Row;

/// What a bench drives to send messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Driver {
    /// Our active messages
    Am,
    /// Bare frames without a protocol: of AF_XDP, DPDK or the simulator; over udp and tcp a bare socket
    Raw,
    /// A kernel UDP socket that spins instead of sleeping
    Udp,
    /// A cache line between two processes: the least cost of shared memory. For latency with --hosts shm
    Cacheline,
    /// A driver of `ablation` or `compare` alone.
    #[value(skip)]
    Row(Row),
}

impl Driver {
    /// The name on the command line and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Driver::Am => "am",
            Driver::Raw => "raw",
            Driver::Udp => "udp",
            Driver::Cacheline => "cacheline",
            Driver::Row(row) => row.name(),
        }
    }

    /// Whether it is a kernel socket, which needs IP addresses and no rights.
    pub(crate) const fn is_kernel(self) -> bool {
        match self {
            Driver::Udp => true,
            Driver::Row(row) => row.is_kernel(),
            Driver::Am | Driver::Raw | Driver::Cacheline => false,
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
