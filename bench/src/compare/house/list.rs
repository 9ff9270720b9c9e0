//! Our drivers, bare frames, and the kernel's own sockets: one entry each.

use super::{House, Over};
use crate::ablation::row::Row;
use crate::deploy::joined::Joint;
use crate::via::Via;

const LARGE: &str = "am: what does not fit one frame is a bulk put; in a round trip, one put each way";
const RUNS: &str = "am-udp: runs of frames cross a veth whole (GSO), so bandwidth is no NIC's";
const BARE: &str =
    "raw: what fits one frame; sends the same frames again and again, and may lose some, which are counted";
const DPDK: &str = "dpdk: each turn in a process of its own; frames of 1500 bytes at most, on whatever wire; memif and virtio-user are no cable";
const DATAGRAMS: &str = "udp: messages up to 65,507 bytes, one datagram each; runs of datagrams cross a veth whole (GSO), so rates are no NIC's; what \
     was lost is counted, and never sent again";
const SEGMENTS: &str = "tcp: on a veth segments of up to 64 KiB cross whole, so bandwidth is no NIC's";
const SLEEPING: &str = "sleeping: poll(2) wherever there is nothing to do; a round trip is two wake-ups";

const MEMIF: Over = Over::Joined(Joint::Memif);
const VIRTIO: Over = Over::Joined(Joint::VirtioUser);

pub(in crate::compare) const HOUSE: [House; 23] = [
    House::new("am", "active messages, one a frame", Over::Xdp, &[LARGE]),
    House::new("am-bundles", "active messages that may share a frame", Over::Xdp, &[LARGE]).bundled(),
    House::new("am-udp", "active messages over kernel UDP", Over::Udp, &[LARGE, RUNS]),
    House::new("am-udp-bundles", "active messages over kernel UDP, that may share a frame", Over::Udp, &[LARGE, RUNS])
        .bundled(),
    House::new("am-tcp", "active messages over kernel TCP", Over::Tcp, &[LARGE, SEGMENTS]),
    House::new(
        "am-tcp-bundles",
        "active messages over kernel TCP, that may share a frame",
        Over::Tcp,
        &[LARGE, SEGMENTS],
    )
    .bundled(),
    House::new("am-shm", "active messages over shared memory", Over::Shm, &[LARGE]),
    House::new("am-shm-bundles", "active messages over shared memory, that may share a frame", Over::Shm, &[LARGE])
        .bundled(),
    House::new(
        "am-dpdk-af_packet",
        "active messages over DPDK's packet sockets on the cable",
        Over::AfPacket,
        &[LARGE, DPDK],
    ),
    House::new("am-dpdk-af_xdp", "active messages over DPDK's AF_XDP on the cable", Over::AfXdp, &[LARGE, DPDK]),
    House::new("am-dpdk-memif", "active messages over DPDK's memif", MEMIF, &[LARGE, DPDK]),
    House::new(
        "am-dpdk-memif-bundles",
        "active messages over DPDK's memif, that may share a frame",
        MEMIF,
        &[LARGE, DPDK],
    )
    .bundled(),
    House::new("am-dpdk-virtio-user", "active messages over DPDK's vhost and virtio-user", VIRTIO, &[LARGE, DPDK]),
    House::new(
        "am-dpdk-virtio-user-bundles",
        "active messages over DPDK's vhost and virtio-user, that may share a frame",
        VIRTIO,
        &[LARGE, DPDK],
    )
    .bundled(),
    House::new("raw", "bare AF_XDP frames, nothing above them", Over::Xdp, &[BARE]).by(Via::Raw),
    House::new("raw-dpdk-memif", "bare frames by DPDK's memif", MEMIF, &[BARE, DPDK]).by(Via::Raw),
    House::new("raw-dpdk-virtio-user", "bare frames by DPDK's vhost and virtio-user", VIRTIO, &[BARE, DPDK])
        .by(Via::Raw),
    House::new("udp", "kernel UDP, both sides spin", Over::Xdp, &[DATAGRAMS]).by(Via::Udp),
    House::new("udp-sleeping", "kernel UDP, both sides sleep", Over::Xdp, &[DATAGRAMS, SLEEPING])
        .by(Via::Row(Row::UdpSleeping)),
    House::new("tcp", "kernel TCP, both sides spin", Over::Xdp, &[SEGMENTS]).by(Via::Row(Row::Tcp)),
    House::new("tcp-nagle", "kernel TCP that gathers small messages", Over::Xdp, &[SEGMENTS])
        .by(Via::Row(Row::TcpNagle)),
    House::new("tcp-sleeping", "kernel TCP, both sides sleep", Over::Xdp, &[SEGMENTS, SLEEPING])
        .by(Via::Row(Row::TcpSleeping)),
    House::new("tcp-no-offload", "kernel TCP, segments cut to frames before the veth", Over::Xdp, &[])
        .by(Via::Row(Row::Tcp))
        .without_offload(),
];

impl House {
    /// A row of our messages.
    const fn new(name: &'static str, what: &'static str, over: Over, notes: &'static [&'static str]) -> House {
        House { name, what, via: Via::Am, over, bundles: false, without_offload: false, notes }
    }

    const fn by(self, via: Via) -> House {
        House { via, ..self }
    }

    const fn bundled(self) -> House {
        House { bundles: true, ..self }
    }

    const fn without_offload(self) -> House {
        House { without_offload: true, ..self }
    }
}
