//! Whether this host still has the address that a socket is bound to. The kernel leaves a socket bound when its address is
//! removed, or its interface goes down, and says nothing to a socket that only receives.
//!
//! Other sockets ask, by the route to the address. They are in the network namespace of the first, wherever its thread is
//! later. The route says nothing of an interface that is down, except to a socket that is bound to the interface.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use am_ring::own::{Own, high};
use nix::ifaddrs::getifaddrs;
use rustix::io::Errno;
use rustix::net::{connect, connect_unspec};
use socket2::SockRef;

use crate::errors::doing;
use crate::{SocketOpenError, setup};

/// The interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A socket's own address.
#[derive(Debug)]
pub(crate) struct LocalAddress {
    at: SocketAddr,
    /// `None` where the answer says nothing: for all addresses of the host, or if it is wrong from the start.
    asks: Option<Own<UdpSocket>>,
    /// The same, bound to the interface. `None` if the interface is not known, or an older kernel refuses.
    asks_interface: Option<Own<UdpSocket>>,
    next_check: Instant,
    is_here: bool,
    error: String,
}

impl LocalAddress {
    /// # Errors
    /// There is no descriptor for the sockets.
    pub(crate) fn of(at: SocketAddr) -> Result<LocalAddress, SocketOpenError> {
        let unspecified = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let open = || match UdpSocket::bind(unspecified) {
            Ok(socket) => Ok(Own::new(high(socket))),
            Err(error) => Err(doing("open a socket that asks for an address")(error)),
        };
        let asks = Some(open()?).filter(|asks| !at.ip().is_unspecified() && is_here(asks, at));
        let mut addresses = getifaddrs().into_iter().flatten();
        let interface = addresses.find(|address| asks.is_some() && setup::has_address(address, at));
        let asks_interface = match interface {
            Some(interface) => Some(open()?).filter(|asks| {
                let bound = SockRef::from(&**asks).bind_device(Some(interface.interface_name.as_bytes()));
                bound.is_ok() && !is_down(asks, at)
            }),
            None => None,
        };
        let error =
            format!("this host has no address {} any more, or its interface is down: `ip address` shows both", at.ip());
        Ok(LocalAddress { at, asks, asks_interface, next_check: Instant::now() + CHECK_INTERVAL, is_here: true, error })
    }

    /// Why the socket can neither send nor receive. Makes a few system calls, now and then.
    pub(crate) fn error(&mut self) -> Option<&str> {
        let asks = self.asks.as_ref()?;
        let now = Instant::now();
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            let is_up = || self.asks_interface.as_ref().is_none_or(|asks| !is_down(asks, self.at));
            self.is_here = is_here(asks, self.at) && is_up();
        }
        (!self.is_here).then_some(&*self.error)
    }
}

/// Whether the route to this address ends here. Then the kernel chooses the address itself as the source.
fn is_here(asks: &Own<UdpSocket>, at: SocketAddr) -> bool {
    // One that was lost is not connected: it may be the program's.
    let Some(asks) = asks.get() else { return true };
    let is_same = |source: SocketAddr| source.ip() == at.ip() || (source.ip().is_loopback() && at.ip().is_loopback());
    // The source of an earlier route would stay.
    match connect_unspec(asks).and_then(|()| connect(asks, &at)) {
        Ok(()) => asks.local_addr().is_ok_and(is_same),
        // No port, or no memory, says nothing about the address.
        Err(Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS) => true,
        Err(_) => false,
    }
}

/// Whether the interface is down. An address may have moved to another interface: then this one is not asked for it.
fn is_down(asks: &Own<UdpSocket>, at: SocketAddr) -> bool {
    asks.get().is_some_and(|asks| connect(asks, &at) == Err(Errno::NETUNREACH))
}
