//! What a bench drives to send messages.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What a bench drives to send messages. A command takes those with a text; `ablation`, `compare` and `table2` use the others.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum, strum::Display, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Driver {
    /// Our active messages
    Am,
    /// Bare frames without a protocol: of AF_XDP, DPDK or the simulator; over udp and tcp a bare socket
    Raw,
    /// A kernel UDP socket that spins instead of sleeping
    Udp,
    /// A cache line between two processes: the least cost of shared memory. For latency with --hosts shm
    Cacheline,
    /// One frame in, one out, a doorbell each.
    #[value(skip)]
    Baseline,
    /// Bursts of frames, one doorbell each.
    #[value(skip)]
    Streamed,
    /// Every payload is built in its frame.
    #[value(skip)]
    AllDma,
    /// Small payloads are copied, large ones are built in the frame.
    #[value(skip)]
    Hybrid,
    /// A pool of owned frames and four queues.
    #[value(skip)]
    Buffers,
    /// Each header is parsed and dispatched on.
    #[value(skip)]
    Interpreted,
    /// A kernel TCP socket that spins.
    #[value(skip)]
    Tcp,
    /// A kernel TCP socket with Nagle's algorithm.
    #[value(skip)]
    TcpNagle,
    /// A kernel TCP socket that sleeps while it is idle.
    #[value(skip)]
    TcpSleeping,
    /// A kernel UDP socket that sleeps while it is idle.
    #[value(skip)]
    UdpSleeping,
    /// Bare frames whose payloads are copied, in and out.
    #[value(skip)]
    Copied,
    /// Directed Point.
    #[value(skip)]
    Dp,
}

impl Driver {
    /// The name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it is a kernel socket, which needs IP addresses and no rights.
    pub const fn is_kernel(self) -> bool {
        use Driver::{Tcp, TcpNagle, TcpSleeping, Udp, UdpSleeping};
        matches!(self, Udp | UdpSleeping | Tcp | TcpNagle | TcpSleeping)
    }
}
