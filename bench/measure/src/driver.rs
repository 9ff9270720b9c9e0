//! What a bench drives to send messages.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What a bench drives to send messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
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
    pub const fn name(self) -> &'static str {
        match self {
            Driver::Am => "am",
            Driver::Raw => "raw",
            Driver::Udp => "udp",
            Driver::Cacheline => "cacheline",
            Driver::Row(row) => row.name(),
        }
    }

    /// Whether it is a kernel socket, which needs IP addresses and no rights.
    pub const fn is_kernel(self) -> bool {
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

/// A driver that only `ablation`, `compare` and `table2` use. `ablation` says what most of them are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// One frame in, one out, a doorbell each.
    Baseline,
    /// Bursts of frames, one doorbell each.
    Streamed,
    /// Every payload is built in its frame.
    AllDma,
    /// Small payloads are copied, large ones are built in the frame.
    Hybrid,
    /// A pool of owned frames and four queues.
    Buffers,
    /// Each header is parsed and dispatched on.
    Interpreted,
    /// A kernel TCP socket that spins.
    Tcp,
    /// A kernel TCP socket with Nagle's algorithm. Only in `compare`.
    TcpNagle,
    /// A kernel TCP socket that sleeps while it is idle. Only in `compare`.
    TcpSleeping,
    /// A kernel UDP socket that sleeps while it is idle. Only in `compare`.
    UdpSleeping,
    /// Bare frames whose payloads are copied, in and out. Only in `table2`.
    Copied,
    /// Directed Point. Only in `table2`.
    Dp,
}

impl Row {
    /// The name in the table and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Row::Baseline => "baseline",
            Row::Streamed => "streamed",
            Row::AllDma => "all_dma",
            Row::Hybrid => "hybrid",
            Row::Buffers => "buffers",
            Row::Interpreted => "interpreted",
            Row::Tcp => "tcp",
            Row::TcpNagle => "tcp_nagle",
            Row::TcpSleeping => "tcp_sleeping",
            Row::UdpSleeping => "udp_sleeping",
            Row::Copied => "copied",
            Row::Dp => "dp",
        }
    }

    /// Whether it is a kernel socket.
    pub(crate) const fn is_kernel(self) -> bool {
        matches!(self, Row::Tcp | Row::TcpNagle | Row::TcpSleeping | Row::UdpSleeping)
    }
}
