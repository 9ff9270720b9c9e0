//! Ours, the bare wires, and the kernel's own sockets: one entry each.

use super::{House, Over};
use crate::ablation::row::Row;
use crate::deploy::joined::Joint;
use crate::via::Via;

const PLAIN: House =
    House { name: "", what: "", via: Via::Am, over: Over::Xdp, bundles: false, without_offload: false, notes: &[] };

const LARGE: &str = "am: what does not fit one frame is a bulk put; in a round trip, one put each way";
const RUNS: &str = "am-udp: runs of frames cross a veth whole (GSO), so bandwidth is no NIC's";
const BARE: &str =
    "raw: what fits one frame; sends the same frames again and again, and may lose some, which are counted";
const DPDK: &str = "dpdk: each turn in a process of its own; frames of 1500 bytes at most, on whatever wire; memif and virtio-user are no cable";
const DATAGRAMS: &str = "udp: messages up to 65,507 bytes, one datagram each; runs of datagrams cross a veth whole (GSO), so rates are no NIC's; what \
     was lost is counted, and never sent again";
const SEGMENTS: &str = "tcp: on a veth segments of up to 64 KiB cross whole, so bandwidth is no NIC's";
const SLEEPING: &str = "sleeping: poll(2) wherever there is nothing to do; a round trip is two wake-ups";

/// Ours, and the kernel's.
pub(in crate::compare) const HOUSE: [House; 23] = [
    House { name: "am", what: "active messages, one a frame", notes: &[LARGE], ..PLAIN },
    House {
        name: "am-bundles",
        what: "active messages that may share a frame",
        bundles: true,
        notes: &[LARGE],
        ..PLAIN
    },
    House { name: "am-udp", what: "active messages over kernel UDP", over: Over::Udp, notes: &[LARGE, RUNS], ..PLAIN },
    House {
        name: "am-udp-bundles",
        what: "active messages over kernel UDP, that may share a frame",
        over: Over::Udp,
        bundles: true,
        notes: &[LARGE, RUNS],
        ..PLAIN
    },
    House {
        name: "am-tcp",
        what: "active messages over kernel TCP",
        over: Over::Tcp,
        notes: &[LARGE, SEGMENTS],
        ..PLAIN
    },
    House {
        name: "am-tcp-bundles",
        what: "active messages over kernel TCP, that may share a frame",
        over: Over::Tcp,
        bundles: true,
        notes: &[LARGE, SEGMENTS],
        ..PLAIN
    },
    House { name: "am-shm", what: "active messages over shared memory", over: Over::Shm, notes: &[LARGE], ..PLAIN },
    House {
        name: "am-shm-bundles",
        what: "active messages over shared memory, that may share a frame",
        over: Over::Shm,
        bundles: true,
        notes: &[LARGE],
        ..PLAIN
    },
    House {
        name: "am-dpdk-af_packet",
        what: "active messages over DPDK's packet sockets on the cable",
        over: Over::AfPacket,
        notes: &[LARGE, DPDK],
        ..PLAIN
    },
    House {
        name: "am-dpdk-af_xdp",
        what: "active messages over DPDK's AF_XDP on the cable",
        over: Over::AfXdp,
        notes: &[LARGE, DPDK],
        ..PLAIN
    },
    House {
        name: "am-dpdk-memif",
        what: "active messages over DPDK's memif",
        over: Over::Joined(Joint::Memif),
        notes: &[LARGE, DPDK],
        ..PLAIN
    },
    House {
        name: "am-dpdk-memif-bundles",
        what: "active messages over DPDK's memif, that may share a frame",
        over: Over::Joined(Joint::Memif),
        bundles: true,
        notes: &[LARGE, DPDK],
        ..PLAIN
    },
    House {
        name: "am-dpdk-virtio-user",
        what: "active messages over DPDK's vhost and virtio-user",
        over: Over::Joined(Joint::VirtioUser),
        notes: &[LARGE, DPDK],
        ..PLAIN
    },
    House {
        name: "am-dpdk-virtio-user-bundles",
        what: "active messages over DPDK's vhost and virtio-user, that may share a frame",
        over: Over::Joined(Joint::VirtioUser),
        bundles: true,
        notes: &[LARGE, DPDK],
        ..PLAIN
    },
    House { name: "raw", what: "bare AF_XDP frames, nothing above them", via: Via::Raw, notes: &[BARE], ..PLAIN },
    House {
        name: "raw-dpdk-memif",
        what: "bare frames by DPDK's memif",
        via: Via::Raw,
        over: Over::Joined(Joint::Memif),
        notes: &[BARE, DPDK],
        ..PLAIN
    },
    House {
        name: "raw-dpdk-virtio-user",
        what: "bare frames by DPDK's vhost and virtio-user",
        via: Via::Raw,
        over: Over::Joined(Joint::VirtioUser),
        notes: &[BARE, DPDK],
        ..PLAIN
    },
    House { name: "udp", what: "kernel UDP, both sides spin", via: Via::Udp, notes: &[DATAGRAMS], ..PLAIN },
    House {
        name: "udp-sleeping",
        what: "kernel UDP, both sides sleep",
        via: Via::Row(Row::UdpSleeping),
        notes: &[DATAGRAMS, SLEEPING],
        ..PLAIN
    },
    House { name: "tcp", what: "kernel TCP, both sides spin", via: Via::Row(Row::Tcp), notes: &[SEGMENTS], ..PLAIN },
    House {
        name: "tcp-nagle",
        what: "kernel TCP that gathers small messages",
        via: Via::Row(Row::TcpNagle),
        notes: &[SEGMENTS],
        ..PLAIN
    },
    House {
        name: "tcp-sleeping",
        what: "kernel TCP, both sides sleep",
        via: Via::Row(Row::TcpSleeping),
        notes: &[SEGMENTS, SLEEPING],
        ..PLAIN
    },
    House {
        name: "tcp-no-offload",
        what: "kernel TCP, segments cut to frames before the veth",
        via: Via::Row(Row::Tcp),
        without_offload: true,
        ..PLAIN
    },
];
