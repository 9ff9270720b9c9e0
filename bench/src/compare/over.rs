//! What carries our messages: each transport is one entry here, by the names that a user would say.

use std::process;

use wire::frame::ETHERNET;

use crate::deploy::veth::ADDRESSES;

/// Both sides' port.
const PORT: u16 = 0x88b5;
/// IPv4, UDP and the Ethernet header of our own frame within, in the frame of the interface.
const AROUND_UDP: usize = 20 + 8 + ETHERNET;
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
    /// The transports of the near and the far side; `None` for the interface.
    pub(super) fn names(self) -> Option<[String; 2]> {
        match self {
            Over::Xdp => None,
            Over::Udp => Some(sockets("udp")),
            Over::Tcp => Some(sockets("tcp")),
            Over::Shm => Some([(); 2].map(|()| format!("shm:am-bench-compare-{}", process::id()))),
        }
    }

    /// Bytes behind the Ethernet header of its longest frame, over interfaces with this MTU.
    pub(super) fn most(self, mtu: usize) -> usize {
        match self {
            Over::Xdp => mtu,
            Over::Udp => mtu.saturating_sub(AROUND_UDP),
            Over::Tcp => IN_A_STREAM,
            Over::Shm => IN_SHARED_MEMORY,
        }
    }
}

/// On the addresses of the cable; each knows the other.
fn sockets(scheme: &str) -> [String; 2] {
    let address = |with_prefix: &'static str| with_prefix.split('/').next().unwrap_or_default();
    let [near, far] = [ADDRESSES.0, ADDRESSES.1].map(address);
    [(near, far), (far, near)].map(|(own, other)| format!("{scheme}:{own}:{PORT},peer={other}:{PORT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_knows_the_other() {
        let [near, far] = Over::Udp.names().unwrap();
        assert_eq!(near, "udp:10.77.0.1:34997,peer=10.77.0.2:34997");
        assert_eq!(far, "udp:10.77.0.2:34997,peer=10.77.0.1:34997");
        let [here, there] = Over::Shm.names().unwrap();
        assert_eq!(here, there);
        assert_eq!((Over::Xdp.names(), Over::Udp.most(1500)), (None, 1458));
    }
}
