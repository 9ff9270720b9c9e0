//! Our drivers, bare frames, and the kernel's own sockets: one entry each.

use super::{BuiltIn, Underlay};
use crate::ablation::row::Row;
use crate::deploy::processes::LocalTransport;
use crate::driver::Driver;

const LARGE: &str = "am: what does not fit one frame is a bulk put; in a round trip, one put each way";
const RUNS: &str = "am-udp: runs of frames cross a veth whole (GSO), so bandwidth is no NIC's";
const BARE: &str =
    "raw: what fits one frame; sends the same frames again and again, and may lose some, which are counted";
const DPDK: &str = "dpdk: each turn in a process of its own; frames of 1500 bytes at most, on whatever wire; memif and virtio-user are no cable";
const DATAGRAMS: &str = "udp: messages up to 65,507 bytes, one datagram each; runs of datagrams cross a veth whole (GSO), so rates are no NIC's; what \
     was lost is counted, and never sent again";
const SEGMENTS: &str = "tcp: on a veth segments of up to 64 KiB cross whole, so bandwidth is no NIC's";
const SLEEPING: &str = "sleeping: poll(2) wherever there is nothing to do; a round trip is two wake-ups";

const MEMIF: Underlay = Underlay::Joined(LocalTransport::Memif);
const VIRTIO: Underlay = Underlay::Joined(LocalTransport::VirtioUser);

pub(in crate::compare) const BUILT_IN: [BuiltIn; 23] = [
    BuiltIn::new("am", "active messages, one a frame", Underlay::Xdp, &[LARGE]),
    BuiltIn::new("am-bundles", "active messages that may share a frame", Underlay::Xdp, &[LARGE]).coalesced(),
    BuiltIn::new("am-udp", "active messages over kernel UDP", Underlay::Udp, &[LARGE, RUNS]),
    BuiltIn::new(
        "am-udp-bundles",
        "active messages over kernel UDP, that may share a frame",
        Underlay::Udp,
        &[LARGE, RUNS],
    )
    .coalesced(),
    BuiltIn::new("am-tcp", "active messages over kernel TCP", Underlay::Tcp, &[LARGE, SEGMENTS]),
    BuiltIn::new(
        "am-tcp-bundles",
        "active messages over kernel TCP, that may share a frame",
        Underlay::Tcp,
        &[LARGE, SEGMENTS],
    )
    .coalesced(),
    BuiltIn::new("am-shm", "active messages over shared memory", Underlay::Shm, &[LARGE]),
    BuiltIn::new(
        "am-shm-bundles",
        "active messages over shared memory, that may share a frame",
        Underlay::Shm,
        &[LARGE],
    )
    .coalesced(),
    BuiltIn::new(
        "am-dpdk-af_packet",
        "active messages over DPDK's packet sockets on the cable",
        Underlay::AfPacket,
        &[LARGE, DPDK],
    ),
    BuiltIn::new("am-dpdk-af_xdp", "active messages over DPDK's AF_XDP on the cable", Underlay::AfXdp, &[LARGE, DPDK]),
    BuiltIn::new("am-dpdk-memif", "active messages over DPDK's memif", MEMIF, &[LARGE, DPDK]),
    BuiltIn::new(
        "am-dpdk-memif-bundles",
        "active messages over DPDK's memif, that may share a frame",
        MEMIF,
        &[LARGE, DPDK],
    )
    .coalesced(),
    BuiltIn::new("am-dpdk-virtio-user", "active messages over DPDK's vhost and virtio-user", VIRTIO, &[LARGE, DPDK]),
    BuiltIn::new(
        "am-dpdk-virtio-user-bundles",
        "active messages over DPDK's vhost and virtio-user, that may share a frame",
        VIRTIO,
        &[LARGE, DPDK],
    )
    .coalesced(),
    BuiltIn::new("raw", "bare AF_XDP frames, nothing above them", Underlay::Xdp, &[BARE]).by(Driver::Raw),
    BuiltIn::new("raw-dpdk-memif", "bare frames by DPDK's memif", MEMIF, &[BARE, DPDK]).by(Driver::Raw),
    BuiltIn::new("raw-dpdk-virtio-user", "bare frames by DPDK's vhost and virtio-user", VIRTIO, &[BARE, DPDK])
        .by(Driver::Raw),
    BuiltIn::new("udp", "kernel UDP, both sides spin", Underlay::Xdp, &[DATAGRAMS]).by(Driver::Udp),
    BuiltIn::new("udp-sleeping", "kernel UDP, both sides sleep", Underlay::Xdp, &[DATAGRAMS, SLEEPING])
        .by(Driver::Row(Row::UdpSleeping)),
    BuiltIn::new("tcp", "kernel TCP, both sides spin", Underlay::Xdp, &[SEGMENTS]).by(Driver::Row(Row::Tcp)),
    BuiltIn::new("tcp-nagle", "kernel TCP that gathers small messages", Underlay::Xdp, &[SEGMENTS])
        .by(Driver::Row(Row::TcpNagle)),
    BuiltIn::new("tcp-sleeping", "kernel TCP, both sides sleep", Underlay::Xdp, &[SEGMENTS, SLEEPING])
        .by(Driver::Row(Row::TcpSleeping)),
    BuiltIn::new("tcp-no-offload", "kernel TCP, segments cut to frames before the veth", Underlay::Xdp, &[])
        .by(Driver::Row(Row::Tcp))
        .without_offload(),
];

impl BuiltIn {
    /// A row of our messages.
    const fn new(name: &'static str, what: &'static str, over: Underlay, notes: &'static [&'static str]) -> BuiltIn {
        BuiltIn { name, what, driver: Driver::Am, over, coalesce: false, without_offload: false, notes }
    }

    const fn by(self, driver: Driver) -> BuiltIn {
        BuiltIn { driver, ..self }
    }

    const fn coalesced(self) -> BuiltIn {
        BuiltIn { coalesce: true, ..self }
    }

    const fn without_offload(self) -> BuiltIn {
        BuiltIn { without_offload: true, ..self }
    }
}
