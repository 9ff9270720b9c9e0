//! Finds the longest datagram that is not fragmented.

use std::net::{IpAddr, SocketAddr};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// Ethernet's usual MTU, for interfaces without a known one.
const ETHERNET_MTU: usize = 1500;

/// Bytes of the headers of IP and UDP.
pub(crate) fn headers(local: SocketAddr) -> usize {
    if local.is_ipv4() { 20 + 8 } else { 40 + 8 }
}

/// Bytes of the longest datagram that the interface with this address carries in one piece. For the unspecified
/// address: the least of all interfaces.
pub(crate) fn longest_datagram(local: SocketAddr) -> usize {
    let interfaces = getifaddrs().map(|all| all.collect::<Vec<_>>()).unwrap_or_default();
    let has = |interface: &&InterfaceAddress| has_address(interface, local.ip());
    let mtu = interfaces.iter().filter(has).filter_map(|interface| mtu(&interface.interface_name)).min();
    // An IP packet has at most 65,535 bytes, whatever the interface allows.
    mtu.unwrap_or(ETHERNET_MTU).min(u16::MAX as usize) - headers(local)
}

fn has_address(interface: &InterfaceAddress, local: IpAddr) -> bool {
    let is_loopback = interface.flags.contains(InterfaceFlags::IFF_LOOPBACK);
    let Some(address) = interface.address.as_ref().and_then(ip) else { return false };
    if local.is_unspecified() {
        return !is_loopback
            && interface.flags.contains(InterfaceFlags::IFF_UP)
            && address.is_ipv4() == local.is_ipv4();
    }
    // All of 127.0.0.0/8 is local, but the interface has only one address of it.
    address == local || (local.is_loopback() && is_loopback)
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let four = address.as_sockaddr_in().map(|four| IpAddr::V4(four.ip()));
    four.or_else(|| address.as_sockaddr_in6().map(|six| IpAddr::V6(six.ip())))
}

/// The MTU of an interface. The first file is about the thread's own network namespace. The second exists without IPv6
/// too, and is about the namespace in which it was mounted.
fn mtu(interface: &str) -> Option<usize> {
    let places = [format!("/proc/sys/net/ipv6/conf/{interface}/mtu"), format!("/sys/class/net/{interface}/mtu")];
    let read = |place: &String| std::fs::read_to_string(place).ok()?.trim().parse().ok();
    // A smaller MTU is not plausible.
    places.iter().find_map(read).filter(|mtu| *mtu >= 576)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_carries_as_much_as_ip_can_say() {
        for (local, most) in [("127.0.0.1:0", 65_535 - 28), ("127.9.9.9:0", 65_535 - 28)] {
            assert_eq!(longest_datagram(local.parse().unwrap()), most);
        }
    }

    #[test]
    fn an_address_of_nobody_is_taken_for_one_on_ethernet() {
        assert_eq!(longest_datagram("192.0.2.1:0".parse().unwrap()), 1500 - 28);
        assert_eq!(longest_datagram("[2001:db8::1]:0".parse().unwrap()), 1500 - 48);
    }
}
