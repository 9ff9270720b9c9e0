//! The transport of an interface: `AM_TRANSPORT`, and what a short name stands for.

use std::env;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use am_api::transports;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::unistd::Uid;

/// The variable that names the transports where the program does not.
const TRANSPORT: &str = "AM_TRANSPORT";
/// The variable that has the depth where the program does not.
const DEPTH: &str = "PVMAM_DEPTH";

/// Tasks of one host by shared memory, others by UDP. Neither needs rights.
const DEFAULT: &str = "shm+udp";

/// The most tasks of a link of shared memory.
const MEMBERS: usize = 64;

/// The name of this host.
pub(crate) fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// The text of a variable, if it is set and not empty.
fn variable(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(format!("{name} is not UTF-8: give it a name as `udp:10.0.0.7:7000`")),
    }
}

/// The transports that the environment names, or the default.
///
/// # Errors
/// The variable is not UTF-8.
pub(crate) fn transport() -> Result<String, String> {
    Ok(variable(TRANSPORT)?.unwrap_or_else(|| DEFAULT.to_owned()))
}

/// The depth that the environment names.
///
/// # Errors
/// It is no number.
pub(crate) fn depth() -> Result<Option<i32>, String> {
    let wrong = |text: String| format!("{DEPTH} is `{text}`: give it a number, as 128");
    variable(DEPTH)?.map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// The names to try, the best first.
pub(crate) fn complete(names: &str) -> Vec<String> {
    let own = own_address();
    let parts: Vec<(&str, String)> =
        transports::split(names).into_iter().map(|name| (name, complete_one(name, own))).collect();
    let join = |parts: &mut dyn Iterator<Item = &(&str, String)>| {
        parts.map(|(_, whole)| whole.as_str()).collect::<Vec<_>>().join("+")
    };
    let mut tries = vec![join(&mut parts.iter())];
    // The own link of shared memory has a limited number of members. A task beyond it has the rest.
    let is_rest = |(short, _): &&(&str, String)| transports::split_settings(short).0 != "shm";
    let rest = join(&mut parts.iter().filter(is_rest));
    if !rest.is_empty() && rest != tries[0] {
        tries.push(rest);
    }
    tries
}

fn complete_one(name: &str, own: IpAddr) -> String {
    let (scheme, settings) = transports::split_settings(name);
    match scheme {
        "shm" => format!("shm:pvmam-{},members={MEMBERS}{settings}", Uid::current()),
        "udp" | "tcp" => format!("{scheme}:{}{settings}", SocketAddr::new(own, 0)),
        _ => name.to_owned(),
    }
}

/// The names as other hosts have to be given them: with this host's address where the transport has all of them.
pub(crate) fn for_others(names: &str) -> String {
    let with_address = |name: &str| {
        let (scheme, at) = name.split_once(':')?;
        let at: SocketAddr = at.parse().ok().filter(|at: &SocketAddr| at.ip().is_unspecified())?;
        ["udp", "tcp"].contains(&scheme).then(|| format!("{scheme}:{}", SocketAddr::new(own_address(), at.port())))
    };
    let all = transports::split(names).into_iter().map(|name| with_address(name).unwrap_or_else(|| name.to_owned()));
    all.collect::<Vec<_>>().join("+")
}

/// Whether frames of these transports pass a switch.
pub(crate) fn has_switch(names: &str) -> bool {
    let kinds = ["shm:", "udp:", "tcp:", "node:"];
    !transports::split(names).iter().all(|name| kinds.iter().any(|kind| name.starts_with(kind)))
}

/// The address by which others reach this host: the first of an interface that is up, IPv4 before IPv6; the loopback's if there is none.
fn own_address() -> IpAddr {
    let mut all: Vec<IpAddr> = vec![];
    for interface in getifaddrs().into_iter().flatten() {
        let Some(address) = interface.address.filter(|_| interface.flags.contains(InterfaceFlags::IFF_UP)) else {
            continue;
        };
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        let v6 = || address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip()));
        all.extend(v4.or_else(v6));
    }
    all.retain(|address| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    });
    all.sort_by_key(IpAddr::is_ipv6);
    all.first().copied().unwrap_or(IpAddr::from([127, 0, 0, 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_get_an_address_and_whole_ones_stay() {
        let own = IpAddr::from([10, 0, 0, 7]);
        assert_eq!(complete_one("udp", own), "udp:10.0.0.7:0");
        assert_eq!(complete_one("tcp,frame=9014", own), "tcp:10.0.0.7:0,frame=9014");
        assert!(complete_one("shm", own).starts_with("shm:pvmam-"));
        for whole in ["udp:127.0.0.1:7", "shm:lab", "xdp:eth1", "amd:/run/amd/am.sock", "sim:7,loss=0.1", "nonsense"] {
            assert_eq!(complete_one(whole, own), whole);
        }
    }

    #[test]
    fn a_task_without_room_in_the_own_memory_has_the_rest() {
        let tries = complete("shm+udp:127.0.0.1:0");
        assert!(tries.len() == 2 && tries[0].starts_with("shm:pvmam-") && tries[1] == "udp:127.0.0.1:0", "{tries:?}");
        assert_eq!(complete("shm:lab+udp:127.0.0.1:0"), ["shm:lab+udp:127.0.0.1:0"]);
        assert_eq!(complete("shm").len(), 1);
    }

    #[test]
    fn an_address_for_all_interfaces_is_none_for_others() {
        let port = |name: &str| name.rsplit(':').next().map(ToOwned::to_owned);
        let names = for_others("shm:lab+udp:0.0.0.0:7000");
        assert!(names.starts_with("shm:lab+udp:") && !names.contains("0.0.0.0:"), "{names}");
        assert_eq!(port(&names).as_deref(), Some("7000"));
        assert_eq!(for_others("tcp:10.0.0.7:7+xdp:eth1"), "tcp:10.0.0.7:7+xdp:eth1");
    }
}
