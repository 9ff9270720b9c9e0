//! Which curves share a plot: those between which a reader would choose, on one wire.

pub(super) struct Family {
    pub(super) title: &'static str,
    /// The peers in it, ours first.
    pub(super) members: &'static [&'static str],
}

/// All plots. A peer may be in two plots, as a reference.
pub(super) const FAMILIES: [Family; 6] = [
    Family {
        title: "On the cable, past the kernel's sockets, and its UDP",
        members: &["am", "am-bundles", "am-dpdk-af_packet", "am-dpdk-af_xdp", "raw", "udp"],
    },
    Family { title: "UDP", members: &["am-udp", "am-udp-bundles", "udp", "udp-sleeping", "sockperf-udp", "fi-udp"] },
    Family {
        title: "TCP: sockets",
        members: &[
            "am-tcp",
            "am-tcp-bundles",
            "tcp",
            "tcp-nagle",
            "tcp-sleeping",
            "tcp-no-offload",
            "sockperf-tcp",
            "iperf3",
        ],
    },
    Family {
        title: "TCP: message systems, and the bare socket",
        members: &["am-tcp", "ucx-tcp", "fi-tcp", "openmpi-tcp", "mpich-tcp", "pvm", "pvm-sleeping", "tcp"],
    },
    Family {
        title: "Shared memory",
        members: &["am-shm", "am-shm-bundles", "ucx-shm", "fi-shm", "openmpi-shm", "mpich-shm"],
    },
    Family {
        title: "DPDK between two processes",
        members: &[
            "am-dpdk-memif",
            "am-dpdk-memif-bundles",
            "raw-dpdk-memif",
            "am-dpdk-virtio-user",
            "am-dpdk-virtio-user-bundles",
            "raw-dpdk-virtio-user",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::super::peers::chosen;
    use super::*;

    #[test]
    fn every_peer_is_in_a_plot_of_six_to_eight() {
        let peers: Vec<&str> = chosen(&[], None).unwrap().iter().map(|peer| peer.name()).collect();
        for Family { title, members } in FAMILIES {
            assert!((6..=8).contains(&members.len()), "{title}: {}", members.len());
            assert!(members.iter().all(|name| peers.contains(name)), "{title}");
        }
        let is_drawn = |name: &&&str| FAMILIES.iter().any(|family| family.members.contains(name));
        let left: Vec<&&str> = peers.iter().filter(|name| !is_drawn(name)).collect();
        assert!(left.is_empty(), "in no plot: {left:?}");
    }
}
