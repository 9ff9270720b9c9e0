//! Which transport a process opens. The user names one for all processes; here each process adds what only it knows: its address,
//! the job's name.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use am_api::transports;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::segment::{MAX_MEMBERS, parts};

/// The transport of a job whose user names none.
pub(crate) const DEFAULT: &str = "udp";

/// What a process knows of itself.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) job: String,
    pub(crate) size: usize,
    pub(crate) local_rank: usize,
    pub(crate) local_size: usize,
    /// All processes are on this host.
    pub(crate) is_only_host: bool,
    /// The host's name or address, as the user gave it.
    pub(crate) host: Option<String>,
}

/// Why no name can be made.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing of this host is in the network.
    #[error(
        "no interface of this host has an address in `{0}`: name a network that all hosts are on, or give no address"
    )]
    NoAddress(String),
    /// An interface is for one process.
    #[error(
        "`{name}` is for one process on a host, and this host has {processes}: give each host one slot, or share the interface: run \
         `sudo amd run {name} --socket /run/amd/am.sock` on each host, and name the transport `amd:/run/amd/am.sock`"
    )]
    OneProcess {
        /// The transport.
        name: String,
        /// The processes of this host.
        processes: usize,
    },
}

am_api::debug_as_display!(NameError);

/// The name to open, of the name that the user gave for all.
pub(crate) fn complete(names: &str, facts: &Facts) -> Result<String, NameError> {
    let all: Result<Vec<_>, _> = transports::split(names).into_iter().map(|name| complete_one(name, facts)).collect();
    Ok(all?.join("+"))
}

fn complete_one(name: &str, facts: &Facts) -> Result<String, NameError> {
    let (scheme, address, settings) = parts(name);
    let Facts { job, size, local_size, .. } = facts;
    Ok(match scheme {
        "udp" | "tcp" if address.is_empty() || address.contains('/') => {
            let own = match own_address(address, facts)? {
                IpAddr::V4(own) => own.to_string(),
                IpAddr::V6(own) => format!("[{own}]"),
            };
            format!("{scheme}:{own}:0{settings}")
        }
        // Containers and namespaces on one machine may share its segments, so the job's size counts, not the host's.
        "shm" if address.is_empty() => format!("shm:{job},members={}{settings}", size.clamp(&2, &MAX_MEMBERS)),
        "xdp" if *local_size > 1 => {
            return Err(NameError::OneProcess { name: name.to_owned(), processes: *local_size });
        }
        _ => name.to_owned(),
    })
}

/// The address that others reach this host by.
fn own_address(network: &str, facts: &Facts) -> Result<IpAddr, NameError> {
    if !network.is_empty() {
        let found = interface_addresses(|_| true).into_iter().find(|address| is_in(*address, network));
        return found.ok_or_else(|| NameError::NoAddress(network.to_owned()));
    }
    let named = facts.host.as_ref().and_then(|host| (host.trim_matches(['[', ']']), 0).to_socket_addrs().ok());
    let is_own = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
    let is_far_reaching = |address: &IpAddr| facts.is_only_host || !address.is_loopback();
    let named = named.into_iter().flatten().map(|address| address.ip()).filter(is_far_reaching).find(is_own);
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let is_local = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback(),
    };
    let first = || interface_addresses(|address| !is_local(address)).into_iter().next();
    let other = || if facts.is_only_host { None } else { first() };
    Ok(named.or_else(other).unwrap_or(loopback))
}

/// Such addresses of interfaces that are up, IPv4 first; no IPv6 address of one link, which names the interface, too.
fn interface_addresses(is_wanted: impl Fn(&IpAddr) -> bool) -> Vec<IpAddr> {
    let up = |flags: InterfaceFlags| flags.contains(InterfaceFlags::IFF_UP);
    let mut all: Vec<IpAddr> = vec![];
    for interface in getifaddrs().into_iter().flatten().filter(|interface| up(interface.flags)) {
        let Some(address) = interface.address else { continue };
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        let v6 = || address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip()));
        all.extend(v4.or_else(v6));
    }
    let is_of_link = |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    all.retain(|address| !is_of_link(address) && is_wanted(address));
    all.sort_by_key(IpAddr::is_ipv6);
    all
}

/// Whether the address is in the network, as `10.0.0.0/8` names it.
fn is_in(address: IpAddr, network: &str) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let Some((base, length)) = network.split_once('/') else { return false };
    let (Ok(base), Ok(length)) = (base.trim_matches(['[', ']']).parse::<IpAddr>(), length.parse::<u32>()) else {
        return false;
    };
    let ((own, most), (base, of)) = (bits(address), bits(base));
    let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
    most == of && length <= most && own & mask == base & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(local_size: usize) -> Facts {
        Facts { job: "job7".into(), size: 3, local_rank: 1, local_size, is_only_host: true, host: None }
    }

    #[test]
    fn each_part_gets_what_it_lacks() {
        let is = |names: &str, want: &str| assert_eq!(complete(names, &facts(3)).as_deref(), Ok(want), "{names}");
        is("udp", "udp:127.0.0.1:0");
        is("tcp,frame=9014", "tcp:127.0.0.1:0,frame=9014");
        is("udp:127.0.0.9:7000", "udp:127.0.0.9:7000");
        is("shm", "shm:job7,members=3");
        is("shm,frame=2048+udp", "shm:job7,members=3,frame=2048+udp:127.0.0.1:0");
        is("shm:lab", "shm:lab");
        is("amd:/run/amd/am.sock", "amd:/run/amd/am.sock");
        assert_eq!(complete("xdp:eth1", &facts(1)).as_deref(), Ok("xdp:eth1"));
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        let is = |address: &str, network: &str| is_in(address.parse().unwrap(), network);
        assert!(is("10.1.2.3", "10.0.0.0/8") && is("10.1.2.3", "0.0.0.0/0") && is("10.1.2.3", "10.1.2.3/32"));
        assert!(!is("11.1.2.3", "10.0.0.0/8") && !is("10.1.2.3", "10.0.0.0/33") && !is("10.1.2.3", "::/0"));
        assert!(is("fd00::7", "fd00::/8") && is("fd00::7", "[fd00::]/8") && !is("fe00::7", "fd00::/8"));
        assert!(!is("10.1.2.3", "eth0/8") && !is("10.1.2.3", "10.0.0.0"));
    }

    /// A network that the user names is the one, also where a launcher says nothing of the hosts.
    #[test]
    fn the_loopback_network_may_be_named() {
        let far = Facts { is_only_host: false, ..facts(1) };
        assert_eq!(complete("udp:127.0.0.0/8", &far).as_deref(), Ok("udp:127.0.0.1:0"));
        assert_eq!(complete("tcp:127.0.0.0/8,frame=9014", &facts(3)).as_deref(), Ok("tcp:127.0.0.1:0,frame=9014"));
    }

    #[test]
    fn an_interface_is_for_one_process() {
        for name in ["xdp:eth1", "xdp:eth1,queue=4", "shm+xdp:eth1"] {
            let why = complete(name, &facts(2)).unwrap_err().to_string();
            assert!(why.contains("this host has 2") && why.contains("sudo amd run xdp:eth1"), "{why}");
        }
    }

    #[test]
    fn a_network_that_this_host_is_not_on_is_an_error() {
        assert!(complete("udp:203.0.113.0/24", &facts(1)).unwrap_err().to_string().contains("203.0.113.0/24"));
    }
}
