//! What carries our messages: each transport is one entry here, by the names that a user would say.

use std::process::{Command, Stdio, id};

use am_wire::frame::ETHERNET;

use super::peer::Wire;
use crate::deploy::joined::{Ends, Joint};
use crate::deploy::veth::{ADDRESSES, INTERFACE, Pair};
use crate::error::Error;

/// Both sides' port.
const PORT: u16 = 0x88b5;
/// IPv4 and UDP, in the frame of the interface.
const AROUND_UDP: usize = 20 + 8;
/// What frames are in a stream and in shared memory, unless said, without their Ethernet header.
const IN_A_STREAM: usize = 65_000 - ETHERNET;
const IN_SHARED_MEMORY: usize = 16 * 1024 - ETHERNET;
/// What DPDK's drivers for such devices carry.
const BY_DPDK: usize = 1500;

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// AF_XDP on the interface itself.
    Xdp,
    Udp,
    Tcp,
    Shm,
    /// DPDK on the interface.
    AfPacket,
    AfXdp,
    /// DPDK without an interface.
    Joined(Joint),
}

impl Over {
    /// The transports of the near and the far side, over interfaces with this MTU; `None` for the interface.
    ///
    /// # Errors
    /// There is no place for the files they need.
    pub(super) fn ends(self, mtu: usize) -> Result<Option<Ends>, Error> {
        let names = match self {
            Over::Xdp => return Ok(None),
            // What the cable carries: it would be a jumbo frame's length at most.
            Over::Udp => sockets("udp", &format!(",frame={}", mtu.saturating_sub(AROUND_UDP))),
            Over::Tcp => sockets("tcp", ""),
            Over::Shm => [(); 2].map(|()| format!("shm:am-bench-compare-{}", id())),
            Over::AfPacket => self.on_the_interface("net_af_packet0", mtu),
            Over::AfXdp => self.on_the_interface("net_af_xdp0", mtu),
            Over::Joined(joint) => return joint.ends(None).map(Some),
        };
        Ok(Some(Ends::of(names)))
    }

    fn on_the_interface(self, device: &str, mtu: usize) -> [String; 2] {
        [(); 2].map(|()| format!("dpdk:{device},iface={INTERFACE},am.mtu={}", self.most(mtu)))
    }

    /// Bytes behind the Ethernet header of its longest frame, over interfaces with this MTU.
    pub(super) fn most(self, mtu: usize) -> usize {
        match self {
            Over::Xdp => mtu,
            Over::Udp => mtu.saturating_sub(AROUND_UDP + ETHERNET),
            Over::Tcp => IN_A_STREAM,
            Over::Shm => IN_SHARED_MEMORY,
            Over::AfPacket | Over::AfXdp => mtu.min(BY_DPDK),
            Over::Joined(_) => BY_DPDK,
        }
    }

    /// What is between the two sides.
    pub(super) fn wire(self) -> &'static str {
        match self {
            Over::Xdp | Over::Udp | Over::Tcp | Over::AfPacket | Over::AfXdp => Wire::Veth.name(),
            Over::Joined(joint) => joint.name(),
            Over::Shm => Wire::Memory.name(),
        }
    }

    /// What frames carry there, over interfaces with this MTU; `None` where there is no limit but memory's.
    pub(super) fn mtu(self, mtu: usize) -> Option<usize> {
        match self {
            Over::Xdp | Over::Udp | Over::Tcp => Some(mtu),
            Over::AfPacket | Over::AfXdp | Over::Joined(_) => Some(self.most(mtu)),
            Over::Shm => None,
        }
    }

    /// DPDK is started once a process.
    pub(super) fn is_dpdk(self) -> bool {
        matches!(self, Over::AfPacket | Over::AfXdp | Over::Joined(_))
    }

    /// What DPDK leaves on the interface where it does not end by itself: its XDP program.
    pub(super) fn clear(self, pair: &Pair) {
        let mut off = Command::new("ip");
        off.args(["link", "set", "dev", INTERFACE, "xdp", "off"]).stdin(Stdio::null()).stderr(Stdio::null());
        for host in pair.hosts.iter().filter(|_| self == Over::AfXdp) {
            // Nothing there is no error, and nobody to tell of any other.
            let _ = host.enter(|| off.status());
        }
    }
}

/// On the addresses of the cable; each knows the other.
fn sockets(scheme: &str, settings: &str) -> [String; 2] {
    let address = |with_prefix: &'static str| with_prefix.split('/').next().unwrap_or_default();
    let [near, far] = [ADDRESSES.0, ADDRESSES.1].map(address);
    let peer = if scheme == "udp" { "connect" } else { "peer" };
    [(near, far), (far, near)].map(|(own, other)| format!("{scheme}:{own}:{PORT},{peer}={other}:{PORT}{settings}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(over: Over, mtu: usize) -> [String; 2] {
        over.ends(mtu).unwrap().unwrap().names.clone()
    }

    #[test]
    fn each_side_knows_the_other() {
        let [near, far] = names(Over::Udp, 65_000);
        assert_eq!(near, "udp:10.77.0.1:34997,connect=10.77.0.2:34997,frame=64972");
        assert_eq!(far, "udp:10.77.0.2:34997,connect=10.77.0.1:34997,frame=64972");
        let [here, there] = names(Over::Shm, 65_000);
        assert_eq!(here, there);
        assert!(Over::Xdp.ends(1500).unwrap().is_none() && Over::Udp.most(1500) == 1458);
    }

    #[test]
    fn dpdk_carries_what_it_can_and_the_cable_does() {
        for (mtu, carried) in [(576, 576), (1500, 1500), (65_000, 1500)] {
            let [name, _] = names(Over::AfPacket, mtu);
            assert_eq!(name, format!("dpdk:net_af_packet0,iface=am0,am.mtu={carried}"));
            assert_eq!(Over::AfPacket.mtu(mtu), Some(carried));
        }
        assert_eq!(Over::Joined(Joint::Memif).mtu(65_000), Some(1500));
    }
}
