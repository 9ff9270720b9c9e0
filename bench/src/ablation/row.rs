//! Those that the ablation adds to what carries messages.

use serde::{Deserialize, Serialize};

/// A row that no other command measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Row {
    /// One frame in, one out per turn, a doorbell each.
    Baseline,
    /// Bursts in each direction, one doorbell a turn.
    Streamed,
    /// And every payload made where it is sent from.
    AllDma,
    /// And small payloads copied from the user's memory.
    Hybrid,
    /// And frames that are owned, from a pool.
    Buffers,
    /// And each frame's header looked at.
    Interpreted,
    /// A kernel TCP socket that spins.
    Tcp,
    /// One that lets the kernel gather small messages.
    TcpNagle,
    /// One that sleeps while there is nothing to do; of `compare`, as is the row before.
    TcpSleeping,
    /// A kernel UDP socket that sleeps.
    UdpSleeping,
}

impl Row {
    /// As in the table and in JSON.
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

    /// Whether it is a socket of the kernel's.
    pub(crate) const fn is_kernel(self) -> bool {
        matches!(self, Row::Tcp | Row::TcpNagle | Row::TcpSleeping | Row::UdpSleeping)
    }

    /// Whether it goes over any transport.
    pub(crate) const fn is_of_queues(self) -> bool {
        matches!(self, Row::Buffers | Row::Interpreted)
    }
}
