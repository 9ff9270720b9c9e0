//! The transport's counters and the kernel's, under one set of names.

use std::os::fd::RawFd;

use libc::xdp_statistics;

use crate::sockopt;

/// The kernel's own statistics of the socket: every field of `XDP_STATISTICS`.
pub(crate) fn kernel(socket: RawFd, each: &mut dyn FnMut(&'static str, u64)) {
    let Ok(statistics) = sockopt::get::<xdp_statistics>(socket, libc::XDP_STATISTICS) else { return };
    each("xsk_rx_dropped", statistics.rx_dropped);
    each("xsk_rx_invalid_descs", statistics.rx_invalid_descs);
    each("xsk_tx_invalid_descs", statistics.tx_invalid_descs);
    each("xsk_rx_ring_full", statistics.rx_ring_full);
    each("xsk_rx_fill_ring_empty_descs", statistics.rx_fill_ring_empty_descs);
    each("xsk_tx_ring_empty_descs", statistics.tx_ring_empty_descs);
}

/// Counters of the receive path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RxCounters {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Times that no frame was left for the fill ring, because the program held too many.
    pub(crate) starved: u64,
    /// Invalid addresses from the kernel.
    pub(crate) invalid: u64,
    pub(crate) wakeups: u64,
}

impl RxCounters {
    pub(crate) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("rx_frames", self.frames);
        each("rx_bytes", self.bytes);
        each("rx_starved", self.starved);
        each("rx_invalid", self.invalid);
        each("rx_wakeups", self.wakeups);
    }
}

/// Counters of the send path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxCounters {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Frames for which there was no room: the ring was full, or no chunk was left for a copy.
    pub(crate) full: u64,
    /// Frames too short or too long for Ethernet; dropped.
    pub(crate) invalid: u64,
    /// Frames of another pool, copied into ours.
    pub(crate) copied: u64,
    /// Calls to the kernel.
    pub(crate) kicks: u64,
    /// Frames that the kernel dropped because the device had no room.
    pub(crate) dropped: u64,
    /// Calls that sent nothing: the kernel is out of buffers, or the device is busy.
    pub(crate) stalls: u64,
    /// Calls that failed because the interface is down or removed.
    pub(crate) link_errors: u64,
    /// Invalid addresses from the kernel.
    pub(crate) invalid_completions: u64,
}

impl TxCounters {
    pub(crate) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("tx_frames", self.frames);
        each("tx_bytes", self.bytes);
        each("tx_full", self.full);
        each("tx_invalid", self.invalid);
        each("tx_copied", self.copied);
        each("tx_dropped", self.dropped);
        each("tx_kicks", self.kicks);
        each("tx_stalls", self.stalls);
        each("link_errors", self.link_errors);
    }
}
