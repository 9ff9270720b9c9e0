//! The kinds of transports: the name, the description and the open function of each.

use am_transport::{Transport, TransportName};

#[cfg(feature = "xdp")]
use super::xdp;

/// The result of opening a transport.
type Opened = Result<Box<dyn Transport>, Box<dyn std::error::Error + Send + Sync>>;

/// A kind of transport: its name and its description.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The part of a name before the colon.
    pub scheme: &'static str,
    /// An example of a name.
    pub example: &'static str,
    /// The description, in a line.
    pub what: &'static str,
    pub(super) open: fn(&TransportName) -> Opened,
}

/// All kinds of this build, the best first. Of several that reach a peer, the first is used.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        scheme: "shm",
        example: "shm:lab",
        what: "shared memory: processes of this machine",
        open: |name| Ok(Box::new(am_shm::open(&am_shm::ShmOptions::from_name(name)?)?)),
    },
    #[cfg(feature = "dpdk")]
    Kind {
        scheme: "dpdk",
        example: "dpdk:net_memif0,role=server",
        what: "DPDK: a PCI port or a virtual device; needs scripts/setup --with-dpdk",
        open: |name| Ok(Box::new(am_dpdk::open(&am_dpdk::DpdkOptions::of(name)?)?)),
    },
    #[cfg(feature = "xdp")]
    Kind {
        scheme: "xdp",
        example: "xdp:eth1",
        what: "AF_XDP: the rings of an interface, without the kernel's network stack",
        open: |name| Ok(Box::new(am_afxdp::open(&xdp::options(name)?)?)),
    },
    Kind {
        scheme: "udp",
        example: "udp:10.0.0.7:7000",
        what: "UDP: any network, without special rights; each frame is a datagram",
        open: |name| Ok(Box::new(am_sockets::udp::open(&am_sockets::SocketOptions::from_name(name)?)?)),
    },
    Kind {
        scheme: "tcp",
        example: "tcp:10.0.0.7:7000",
        what: "TCP: any network, without special rights; no frame is lost while a connection lives",
        open: |name| Ok(Box::new(am_sockets::tcp::open(&am_sockets::SocketOptions::from_name(name)?)?)),
    },
    #[cfg(feature = "sim")]
    Kind {
        scheme: "sim",
        example: "sim:7,loss=0.01",
        what: "a simulated network with chosen losses and delays: nodes of one process, for tests",
        open: |name| Ok(Box::new(am_netdev_sim::live::open(&am_netdev_sim::live::SimSettings::from_name(name)?)?)),
    },
];

/// The schemes that a build can leave out. Each is a feature of this crate.
pub(super) const FEATURES: [&str; 3] = ["dpdk", "sim", "xdp"];
