//! What carries our messages: one entry a transport, with the names that a user would type.

use std::process::{Command, Stdio, id};

use am_wire::frame::ETHERNET_HEADER;

use super::peer::Wire;
use crate::deploy::processes::{LocalTransport, TransportPair};
use crate::deploy::veth::{ADDRESSES, INTERFACE, Pair};
use crate::error::Error;

/// The port of both sides.
const PORT: u16 = 0x88b5;
/// The headers of IPv4 and UDP.
const IP_UDP_HEADERS: usize = 20 + 8;
/// The default length of a frame without its Ethernet header, in a stream and in shared memory.
const DEFAULT_STREAM_PAYLOAD: usize = 65_000 - ETHERNET_HEADER;
const DEFAULT_SHM_PAYLOAD: usize = 16 * 1024 - ETHERNET_HEADER;
/// The payload of a frame of these DPDK devices.
const DPDK_PAYLOAD: usize = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Underlay {
    /// AF_XDP on the interface.
    Xdp,
    Udp,
    Tcp,
    Shm,
    /// DPDK on the interface, through packet sockets; below through AF_XDP.
    AfPacket,
    AfXdp,
    /// DPDK between two processes, without an interface.
    Joined(LocalTransport),
}

impl Underlay {
    /// The transports of the near and the far side over interfaces with this MTU; `None` for the interface itself.
    ///
    /// # Errors
    /// The directory for their sockets cannot be made.
    pub(super) fn ends(self, mtu: usize) -> Result<Option<TransportPair>, Error> {
        let names = match self {
            Underlay::Xdp => return Ok(None),
            // A frame fits one datagram of the cable. The default would be a jumbo frame.
            Underlay::Udp => sockets("udp", &format!(",frame={}", mtu.saturating_sub(IP_UDP_HEADERS))),
            Underlay::Tcp => sockets("tcp", ""),
            Underlay::Shm => [(); 2].map(|()| format!("shm:am-bench-compare-{}", id())),
            Underlay::AfPacket => self.on_the_interface("net_af_packet0", mtu),
            Underlay::AfXdp => self.on_the_interface("net_af_xdp0", mtu),
            Underlay::Joined(local_transport) => return local_transport.ends(None).map(Some),
        };
        Ok(Some(TransportPair::of(names)))
    }

    fn on_the_interface(self, device: &str, mtu: usize) -> [String; 2] {
        [(); 2].map(|()| format!("dpdk:{device},iface={INTERFACE},am.mtu={}", self.most(mtu)))
    }

    /// The bytes behind the Ethernet header of its longest frame, over interfaces with this MTU.
    pub(super) fn most(self, mtu: usize) -> usize {
        match self {
            Underlay::Xdp => mtu,
            Underlay::Udp => mtu.saturating_sub(IP_UDP_HEADERS + ETHERNET_HEADER),
            Underlay::Tcp => DEFAULT_STREAM_PAYLOAD,
            Underlay::Shm => DEFAULT_SHM_PAYLOAD,
            Underlay::AfPacket | Underlay::AfXdp => mtu.min(DPDK_PAYLOAD),
            Underlay::Joined(_) => DPDK_PAYLOAD,
        }
    }

    /// The wire between the two sides.
    pub(super) fn wire(self) -> &'static str {
        match self {
            Underlay::Xdp | Underlay::Udp | Underlay::Tcp | Underlay::AfPacket | Underlay::AfXdp => Wire::Veth.name(),
            Underlay::Joined(local_transport) => local_transport.name(),
            Underlay::Shm => Wire::Memory.name(),
        }
    }

    /// The payload of a frame, over interfaces with this MTU; `None` if only memory limits it.
    pub(super) fn mtu(self, mtu: usize) -> Option<usize> {
        match self {
            Underlay::Xdp | Underlay::Udp | Underlay::Tcp => Some(mtu),
            Underlay::AfPacket | Underlay::AfXdp | Underlay::Joined(_) => Some(self.most(mtu)),
            Underlay::Shm => None,
        }
    }

    /// Whether DPDK carries it. A process starts DPDK only once.
    pub(super) fn is_dpdk(self) -> bool {
        matches!(self, Underlay::AfPacket | Underlay::AfXdp | Underlay::Joined(_))
    }

    /// Remove the XDP program that DPDK leaves on the interface when it is killed.
    pub(super) fn clear(self, pair: &Pair) {
        let mut off = Command::new("ip");
        off.args(["link", "set", "dev", INTERFACE, "xdp", "off"]).stdin(Stdio::null()).stderr(Stdio::null());
        for host in pair.hosts.iter().filter(|_| self == Underlay::AfXdp) {
            // There may be none, and any other error would have no reader.
            let _ = host.enter(|| off.status());
        }
    }
}

/// Sockets on the cable's addresses. Each side knows the other's address.
fn sockets(scheme: &str, settings: &str) -> [String; 2] {
    let address = |with_prefix: &'static str| with_prefix.split('/').next().unwrap_or_default();
    let [near, far] = [ADDRESSES.0, ADDRESSES.1].map(address);
    let peer = if scheme == "udp" { "connect" } else { "peer" };
    [(near, far), (far, near)].map(|(own, other)| format!("{scheme}:{own}:{PORT},{peer}={other}:{PORT}{settings}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(over: Underlay, mtu: usize) -> [String; 2] {
        over.ends(mtu).unwrap().unwrap().names.clone()
    }

    #[test]
    fn each_side_knows_the_other() {
        let [near, far] = names(Underlay::Udp, 65_000);
        assert_eq!(near, "udp:10.77.0.1:34997,connect=10.77.0.2:34997,frame=64972");
        assert_eq!(far, "udp:10.77.0.2:34997,connect=10.77.0.1:34997,frame=64972");
        let [here, there] = names(Underlay::Shm, 65_000);
        assert_eq!(here, there);
        assert!(Underlay::Xdp.ends(1500).unwrap().is_none() && Underlay::Udp.most(1500) == 1458);
    }

    #[test]
    fn dpdk_carries_what_it_can_and_the_cable_does() {
        for (mtu, carried) in [(576, 576), (1500, 1500), (65_000, 1500)] {
            let [name, _] = names(Underlay::AfPacket, mtu);
            assert_eq!(name, format!("dpdk:net_af_packet0,iface=am0,am.mtu={carried}"));
            assert_eq!(Underlay::AfPacket.mtu(mtu), Some(carried));
        }
        assert_eq!(Underlay::Joined(LocalTransport::Memif).mtu(65_000), Some(1500));
    }
}
