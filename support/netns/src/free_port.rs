use std::net::{IpAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Below those that the kernel chooses for a socket without a port (`ip_local_port_range`).
const PORTS: std::ops::Range<usize> = 10_000..32_768;

/// Two processes begin this far from each other at least, unless their ids are far apart.
const STRIDE: usize = 61;

/// How many this process has looked at.
static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);

/// A port of UDP and TCP at this address of the host, for a socket that is opened later.
///
/// A port that a socket got from the kernel and gave back may be given to another test before it is opened again. This
/// one the kernel gives to no socket, this process gets it once, and another process begins elsewhere.
///
/// # Panics
/// No port is free.
///
/// ```
/// use std::net::{Ipv4Addr, UdpSocket};
///
/// let ports = [(); 2].map(|()| am_netns::free_port(Ipv4Addr::LOCALHOST));
/// let sockets = ports.map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
/// # drop(sockets);
/// ```
#[must_use]
pub fn free_port(address: impl Into<IpAddr>) -> u16 {
    let address = address.into();
    let first = process::id() as usize * STRIDE;
    (0..PORTS.len())
        .map(|_| (PORTS.start + (first + LOOKED_AT.fetch_add(1, Relaxed)) % PORTS.len()) as u16)
        .find(|port| UdpSocket::bind((address, *port)).is_ok() && TcpListener::bind((address, *port)).is_ok())
        .unwrap_or_else(|| panic!("no port of {address} is free"))
}
