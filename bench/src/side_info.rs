//! The addresses of this side's interface, as the other side needs them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use am_afxdp::Interface;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};

use crate::driver::udp::socket_address;
use crate::error::Error;
use crate::plan::SideInfo;

/// The description of a node called `name` on this interface.
///
/// # Errors
/// [`Error::System`] if the system does not list them.
pub(crate) fn here(name: &str, interface: &Interface, core: Option<usize>) -> Result<SideInfo, Error> {
    let all = getifaddrs().map_err(|e| Error::System { doing: "asking for IP addresses", source: e.into() })?;
    let mine: Vec<InterfaceAddress> = all.filter(|entry| entry.interface_name == interface.name).collect();
    let mut unusable = None;
    // The other side would wait for an address that is not usable now.
    let mut usable = |ip: IpAddr| {
        // The kernel refuses an IPv6 address until it knows that no other host has it.
        let failed = UdpSocket::bind(socket_address(ip, interface.index)).err();
        let is_usable = failed.is_none();
        unusable = failed.map(|error| format!("{ip}: {error}")).or(unusable.take());
        is_usable
    };
    let ipv4 = mine.iter().filter_map(ipv4).find(|ip| usable((*ip).into()));
    let ipv6 = mine.iter().filter_map(link_local).find(|ip| usable((*ip).into()));
    let (name, address, mtu) = (name.to_owned(), interface.address.0, Some(interface.mtu));
    Ok(SideInfo { name, address, ipv4, ipv6, unusable, core, mtu })
}

fn ipv4(entry: &InterfaceAddress) -> Option<Ipv4Addr> {
    Some(entry.address.as_ref()?.as_sockaddr_in()?.ip())
}

fn link_local(entry: &InterfaceAddress) -> Option<Ipv6Addr> {
    let address = entry.address.as_ref()?.as_sockaddr_in6()?.ip();
    address.is_unicast_link_local().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_a_loopback_interface() {
        let (name, driver) = ("lo".to_owned(), String::new());
        let interface = Interface { name, index: 1, mtu: 65536, address: Default::default(), driver, queues: None };
        let place = here("alpha", &interface, Some(1)).unwrap();
        assert_eq!((place.ipv4, place.core, place.mtu), (Some(Ipv4Addr::LOCALHOST), Some(1), Some(65536)));
    }
}
