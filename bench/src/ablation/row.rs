//! The drivers that only `ablation` and `compare` use.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Row {
    /// One frame in, one out per turn, a doorbell each.
    Baseline,
    /// Bursts in each direction, one doorbell a turn.
    Streamed,
    /// `Streamed`, with every payload built in the frame that it leaves in.
    AllDma,
    /// `Streamed`, with small payloads copied from the user's memory.
    Hybrid,
    /// `Hybrid`, with frames owned by a pool.
    Buffers,
    /// `Buffers`, with each frame's header parsed.
    Interpreted,
    /// A kernel TCP socket that spins.
    Tcp,
    /// A kernel TCP socket with Nagle's algorithm. Only in `compare`.
    TcpNagle,
    /// A kernel TCP socket that sleeps while it is idle. Only in `compare`.
    TcpSleeping,
    /// A kernel UDP socket that sleeps while it is idle. Only in `compare`.
    UdpSleeping,
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
        }
    }

    /// Whether it is a kernel socket.
    pub(crate) const fn is_kernel(self) -> bool {
        matches!(self, Row::Tcp | Row::TcpNagle | Row::TcpSleeping | Row::UdpSleeping)
    }

    /// Whether it runs over any transport.
    pub(crate) const fn is_of_queues(self) -> bool {
        matches!(self, Row::Buffers | Row::Interpreted)
    }
}
