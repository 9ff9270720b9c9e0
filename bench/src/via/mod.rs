//! The vias: each makes a [`Port`](crate::measure::Port) of something that
//! carries messages.

pub(crate) mod am;
pub(crate) mod cacheline;
pub(crate) mod datagram;
pub(crate) mod dpdk;
pub(crate) mod lossy;
pub(crate) mod memory;
pub(crate) mod raw;
pub(crate) mod simulated;
pub(crate) mod sleeping;
mod transfers;
pub(crate) mod udp;
