//! What carries our messages: each transport is one entry here, by the names that a user would say.

use std::process;

use wire::frame::ETHERNET;

use crate::deploy::veth::ADDRESSES;

/// Both sides' port.
const PORT: u16 = 0x88b5;
/// IPv4 and UDP, in the frame of the interface.
const AROUND_UDP: usize = 20 + 8;
/// What frames are in a stream and in shared memory, unless said, without their Ethernet header.
const IN_A_STREAM: usize = 65_000 - ETHERNET;
const IN_SHARED_MEMORY: usize = 16 * 1024 - ETHERNET;

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// AF_XDP on the interface itself.
    Xdp,
    Udp,
    Tcp,
    Shm,
}

impl Over {
    /// The transports of the near and the far side, over interfaces with this MTU; `None` for the interface.
    pub(super) fn names(self, mtu: usize) -> Option<[String; 2]> {
        match self {
            Over::Xdp => None,
            // What the cable carries: it would be a jumbo frame's length at most.
            Over::Udp => Some(sockets("udp", &format!(",frame={}", mtu.saturating_sub(AROUND_UDP)))),
            Over::Tcp => Some(sockets("tcp", "")),
            Over::Shm => Some([(); 2].map(|()| format!("shm:am-bench-compare-{}", process::id()))),
        }
    }

    /// Bytes behind the Ethernet header of its longest frame, over interfaces with this MTU.
    pub(super) fn most(self, mtu: usize) -> usize {
        match self {
            Over::Xdp => mtu,
            Over::Udp => mtu.saturating_sub(AROUND_UDP + ETHERNET),
            Over::Tcp => IN_A_STREAM,
            Over::Shm => IN_SHARED_MEMORY,
        }
    }
}

/// On the addresses of the cable; each knows the other.
fn sockets(scheme: &str, settings: &str) -> [String; 2] {
    let address = |with_prefix: &'static str| with_prefix.split('/').next().unwrap_or_default();
    let [near, far] = [ADDRESSES.0, ADDRESSES.1].map(address);
    [(near, far), (far, near)].map(|(own, other)| format!("{scheme}:{own}:{PORT},peer={other}:{PORT}{settings}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_knows_the_other() {
        let [near, far] = Over::Udp.names(65_000).unwrap();
        assert_eq!(near, "udp:10.77.0.1:34997,peer=10.77.0.2:34997,frame=64972");
        assert_eq!(far, "udp:10.77.0.2:34997,peer=10.77.0.1:34997,frame=64972");
        let [here, there] = Over::Shm.names(65_000).unwrap();
        assert_eq!(here, there);
        assert_eq!((Over::Xdp.names(1500), Over::Udp.most(1500)), (None, 1458));
    }
}
