//! What UDP and TCP have in common: addresses, socket options, buffers, pools, and the longest datagram.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use am_ring::{Layout, Own, Pool};
use am_transport::{Caps, memory};
use am_wire::Address;
use am_wire::control::Control;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{SockaddrStorage, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::errors::doing;
use crate::{SocketOpenError, SocketOptions, peer_address};

/// Each frame starts on its own pair of cache lines.
const ALIGN: usize = 128;

/// Make a socket that never blocks.
pub(crate) fn socket(local: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if local.is_ipv6() {
        // Otherwise an IPv4 address could also be written as an IPv6 one.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Check that a socket can use this address. The system lets sockets be bound to some addresses that cannot be used.
pub(crate) fn check_local(local: SocketAddr) -> Result<(), SocketOpenError> {
    peer_address::local_problem(local).map_or(Ok(()), |why| Err(SocketOpenError::NoPlace { local, why }))
}

/// The kernel's smallest buffer (`SOCK_MIN_SNDBUF`).
pub(crate) const MIN_BUFFER: usize = 2304;

/// Check that the buffers are not too small.
pub(crate) fn check_buffer(asked: Option<usize>, least: usize) -> Result<(), SocketOpenError> {
    match asked.filter(|asked| *asked < least) {
        Some(asked) => Err(SocketOpenError::SmallBuffer { asked, least }),
        None => Ok(()),
    }
}

/// Set buffers of this size. Fails if the system allows only less.
pub(crate) fn set_buffers(socket: &Socket, bytes: usize) -> Result<(), SocketOpenError> {
    enlarge(socket, bytes);
    // The kernel doubles the size, for its own use.
    let failed = doing("ask for a buffer's size");
    let got = [socket.recv_buffer_size().map_err(&failed)? / 2, socket.send_buffer_size().map_err(&failed)? / 2];
    let sizes = [("rmem_max", got[0]), ("wmem_max", got[1])];
    match sizes.into_iter().find(|(_, got)| *got < bytes) {
        Some((limit, got)) => Err(SocketOpenError::Buffer { asked: bytes, got, limit }),
        None => Ok(()),
    }
}

/// Set buffers of this size, or as large as the system allows.
pub(crate) fn enlarge(socket: &Socket, bytes: usize) {
    // A size beyond the limit needs CAP_NET_ADMIN.
    if setsockopt(socket, sockopt::RcvBufForce, &bytes).is_err() {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    if setsockopt(socket, sockopt::SndBufForce, &bytes).is_err() {
        let _ = socket.set_send_buffer_size(bytes);
    }
}

/// Enable busy polling: the kernel polls the NIC's queue when nothing has arrived.
pub(crate) fn busy_poll(socket: &Socket, options: &SocketOptions) -> Result<(), SocketOpenError> {
    let Some(time) = options.busy_poll else { return Ok(()) };
    let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX >> 1);
    socket.set_busy_poll(micros).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => SocketOpenError::BusyPoll(time.as_micros()),
        _ => doing("set busy polling")(error),
    })
}

/// The description of a transport, with a pool for frames of this length.
pub(crate) fn caps(
    options: &SocketOptions,
    [scheme, mode]: [&str; 2],
    local: SocketAddr,
    max_frame: usize,
    wake: Own,
) -> Result<Caps, SocketOpenError> {
    let stride = max_frame.next_multiple_of(ALIGN);
    let frames = options.frames.unwrap_or((SocketOptions::MEMORY / stride).clamp(512, 4096));
    memory::check(frames, stride)?;
    let is_stream = scheme == "tcp";
    // Any other address shows its family.
    let family = if local.is_ipv6() && local.ip().is_unspecified() { ", IPv6 only" } else { "" };
    Ok(Caps {
        name: format!("{scheme}:{local}"),
        mode: format!("{mode}{family}"),
        address: choose_address(local),
        max_frame,
        reliable: is_stream,
        ordered: is_stream,
        hears_all: false,
        pool: Pool::heap(Layout { frames, stride, headroom: 0 })?,
        wake: Some(vec![Arc::new(wake)]),
        // The descriptor of TCP is an epoll that reports each arrival once.
        wakes_by_level: !is_stream,
        out_of_band: None,
    })
}

/// Check the longest frame. Set-up frames must fit.
pub(crate) fn check_frame(asked: usize, most: usize, by_mtu: bool) -> Result<usize, SocketOpenError> {
    if (Control::MAX_FRAME..=most).contains(&asked) {
        Ok(asked)
    } else {
        Err(SocketOpenError::Frame { asked, least: Control::MAX_FRAME, most, by_mtu })
    }
}

/// Choose an address: locally administered, unicast, and different each time. It has 46 bits of a hash over boot,
/// process, time and socket, with a key that the system draws at random. Of a thousand transports, two have the same
/// address with a probability of 1 in 10⁸.
fn choose_address(local: SocketAddr) -> Address {
    /// The number of sockets that this process has opened.
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let mut hash = RandomState::new().build_hasher();
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hash);
    (std::process::id(), SystemTime::now(), OPENED.fetch_add(1, Ordering::Relaxed), local).hash(&mut hash);
    let Address([first, rest @ ..]) = Address::from_u64(hash.finish());
    let [b, c, d, e, f] = rest;
    Address([first & 0xfc | 0x02, b, c, d, e, f])
}

/// Ethernet's usual MTU, for interfaces without a known one.
const ETHERNET_MTU: usize = 1500;

/// Bytes of the headers of IP and UDP.
pub(crate) fn headers(local: SocketAddr) -> usize {
    if local.is_ipv4() { 20 + 8 } else { 40 + 8 }
}

/// Bytes of the longest datagram that the interface with this address carries without fragmentation. For the unspecified
/// address, the smallest value of all interfaces.
pub(crate) fn longest_datagram(local: SocketAddr) -> usize {
    let interfaces = getifaddrs().map(|all| all.collect::<Vec<_>>()).unwrap_or_default();
    let has = |interface: &&InterfaceAddress| has_address(interface, local);
    let mtu = interfaces.iter().filter(has).filter_map(|interface| mtu(&interface.interface_name)).min();
    // An IP packet has at most 65,535 bytes, whatever the interface allows.
    mtu.unwrap_or(ETHERNET_MTU).min(u16::MAX as usize) - headers(local)
}

/// Whether this is the interface of a socket's own address.
pub(crate) fn has_address(interface: &InterfaceAddress, local: SocketAddr) -> bool {
    let is_loopback = interface.flags.contains(InterfaceFlags::IFF_LOOPBACK);
    let Some(address) = interface.address.as_ref().and_then(socket_address) else { return false };
    if local.ip().is_unspecified() {
        return !is_loopback
            && interface.flags.contains(InterfaceFlags::IFF_UP)
            && address.is_ipv4() == local.is_ipv4();
    }
    // All of 127.0.0.0/8 is local, but the interface has only one address of it. Several interfaces may have one link-local
    // address, so the scope must match.
    let is_same = address.ip() == local.ip() && peer_address::scope(address) == peer_address::scope(local);
    is_same || (local.ip().is_loopback() && is_loopback)
}

#[inline]
pub(crate) fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

/// The MTU of an interface. The first file is that of the thread's own network namespace. The second one exists also without
/// IPv6, but is that of the namespace in which sysfs was mounted.
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
    fn addresses_are_local_and_different() {
        let local = "127.0.0.1:7000".parse().unwrap();
        let all: std::collections::BTreeSet<Address> = (0..1000).map(|_| choose_address(local)).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|address| address.is_local() && !address.is_group()));
    }

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
