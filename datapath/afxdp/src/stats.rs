//! Everything that is counted, under one set of names.

use xsk_rs::RxQueue;

use crate::rx::RxCounters;
use crate::tx::TxCounters;

/// The kernel's own statistics of the socket: every field of `XDP_STATISTICS`.
pub(crate) fn kernel(queue: &RxQueue, each: &mut dyn FnMut(&'static str, u64)) {
    let Ok(statistics) = queue.fd().xdp_statistics() else { return };
    each("xsk_rx_dropped", statistics.rx_dropped());
    each("xsk_rx_invalid_descs", statistics.rx_invalid_descs());
    each("xsk_tx_invalid_descs", statistics.tx_invalid_descs());
    each("xsk_rx_ring_full", statistics.rx_ring_full());
    each("xsk_rx_fill_ring_empty_descs", statistics.rx_fill_ring_empty_descs());
    each("xsk_tx_ring_empty_descs", statistics.tx_ring_empty_descs());
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
