//! The drivers: each makes a [`Port`](crate::measure::Port) of something that carries messages.

pub(crate) mod am;
pub(crate) mod cacheline;
pub(crate) mod datagram;
pub(crate) mod dpdk;
pub(crate) mod lossy;
mod many;
pub(crate) mod memory;
pub(crate) mod raw;
pub(crate) mod simulated;
pub(crate) mod sleeping;
mod transfers;
pub(crate) mod udp;

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::ablation::row::Row;

/// What a bench drives to send messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Via {
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

impl Via {
    /// The name on the command line and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Via::Am => "am",
            Via::Raw => "raw",
            Via::Udp => "udp",
            Via::Cacheline => "cacheline",
            Via::Row(row) => row.name(),
        }
    }

    /// Whether it is a kernel socket, which needs IP addresses and no rights.
    pub(crate) const fn is_kernel(self) -> bool {
        match self {
            Via::Udp => true,
            Via::Row(row) => row.is_kernel(),
            Via::Am | Via::Raw | Via::Cacheline => false,
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
