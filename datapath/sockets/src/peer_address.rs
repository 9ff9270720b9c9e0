//! Reads and checks socket addresses, as users write them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixDatagram;

use am_transport::PeerAddressError;
use rustix::net::netdevice::{index_to_name, name_to_index};

use crate::errors::is_out_of_descriptors;

/// Why a text is no socket address. The message says what to write instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("an address and a port, as in 127.0.0.1:7000 or [::1]:7000 (names of hosts are not looked up)")]
    Form,
    #[error("a port is at most 65535")]
    Port,
    #[error("there is no interface {0} here: `ip -brief link` lists those there are")]
    Interface(String),
    #[error(
        "interface {0} cannot be looked up: {1}; `ulimit -n` says how many descriptors a process may have, and raises it"
    )]
    Lookup(String, io::Error),
}

/// Read an IP address and a port. The scope may be an interface's name: `[fe80::1%eth0]:7000`. The scope of an address
/// that is not link-local is dropped, because the kernel ignores it: so each address is written in one way only.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, Unreadable> {
    let mut read = match (text.parse(), split_interface(text)) {
        (Ok(read), _) => read,
        (Err(_), Some((bare, interface))) => {
            let mut read: SocketAddr = bare.parse().map_err(|_| form_problem(&bare))?;
            set_scope(&mut read, index_of(interface)?);
            read
        }
        (Err(_), None) => return Err(form_problem(text)),
    };
    if let Some(index) = absent_scope(read) {
        return Err(Unreadable::Interface(format!("with the index {index}")));
    }
    if !is_link_local(read) {
        set_scope(&mut read, 0);
    }
    Ok(read)
}

/// `[fe80::1%eth0]:7000` is `[fe80::1]:7000` and `eth0`.
fn split_interface(text: &str) -> Option<(String, &str)> {
    let (before, rest) = text.split_once('%')?;
    let (interface, after) = rest.split_once(']')?;
    Some((format!("{before}]{after}"), interface))
}

/// The index of an interface. (The C library's function loses the error if it gets no descriptor.)
fn index_of(interface: &str) -> Result<u32, Unreadable> {
    let asked = UnixDatagram::unbound().and_then(|socket| Ok(name_to_index(socket, interface)?));
    asked.map_err(|error| match is_out_of_descriptors(&error) {
        true => Unreadable::Lookup(interface.to_owned(), error),
        false => Unreadable::Interface(interface.to_owned()),
    })
}

/// The name of the interface with this index.
fn name_of(index: u32) -> io::Result<String> {
    Ok(index_to_name(UnixDatagram::unbound()?, index)?)
}

fn form_problem(text: &str) -> Unreadable {
    let port = text.rsplit_once(':').map_or("", |(_, port)| port);
    let is_number = !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    if is_number && port.parse::<u16>().is_err() { Unreadable::Port } else { Unreadable::Form }
}

/// The scope of an address: the index of its interface. 0 if it has none.
pub(crate) fn scope(place: SocketAddr) -> u32 {
    if let SocketAddr::V6(place) = place { place.scope_id() } else { 0 }
}

fn set_scope(place: &mut SocketAddr, index: u32) {
    if let SocketAddr::V6(place) = place {
        place.set_scope_id(index);
    }
}

fn is_link_local(place: SocketAddr) -> bool {
    matches!(place.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The scope of an address, if no interface has this index.
fn absent_scope(place: SocketAddr) -> Option<u32> {
    let is_absent = |index| name_of(index).is_err_and(|error| !is_out_of_descriptors(&error));
    Some(scope(place)).filter(|index| *index != 0 && is_absent(*index))
}

/// The transports that have such addresses.
const SCHEMES: [&str; 2] = ["udp", "tcp"];

/// Read a peer's address for a socket at `local`: `IP:PORT`, with or without our own `scheme` before it.
///
/// A socket at a link-local address reaches the hosts of one link. There a link-local address is written without an
/// interface, too: interfaces have other names and indices on other hosts.
///
/// # Errors
/// The text is no such address, or it names the other transport, which this one cannot reach.
pub(crate) fn parse_peer(scheme: &str, place: &str, local: SocketAddr) -> Result<SocketAddr, PeerAddressError> {
    let example = if local.is_ipv4() { "127.0.0.1:7000" } else { "[::1]:7000" };
    let (its, bare) = place.split_once(':').filter(|(its, _)| SCHEMES.contains(its)).unwrap_or((scheme, place));
    let no_peer = |why: &str| PeerAddressError::NoPeer { place: place.into(), why: why.into() };
    let mut read = parse(bare).map_err(|why| match why {
        Unreadable::Form => PeerAddressError::NoPlace { place: place.into(), example },
        other => no_peer(&other.to_string()),
    })?;
    if its != scheme {
        return Err(no_peer(&format!(
            "this transport cannot reach a {its} node; write {scheme}:{bare} if a {scheme} node is there, or open {its} as well"
        )));
    }
    if read.is_ipv4() != local.is_ipv4() {
        let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(no_peer(&format!(
            "this socket is bound to {local} and supports {family} only; write {example}, for instance"
        )));
    }
    if is_link_local(read) && is_link_local(local) {
        if scope(read) == 0 {
            set_scope(&mut read, scope(local));
        }
        if scope(read) != scope(local) {
            let [own, its] =
                [local, read].map(|place| name_of(scope(place)).unwrap_or_else(|_| scope(place).to_string()));
            return Err(no_peer(&format!(
                "it is on the link of {its}, and this socket is bound to {local}, on that of {own}: open another one at an \
                 address of {its}"
            )));
        }
    }
    peer_problem(read).map_or(Ok(read), |why| Err(no_peer(why)))
}

/// Why no socket can be bound to this address.
pub(crate) fn local_problem(place: SocketAddr) -> Option<&'static str> {
    address_problem(place)
        .or_else(|| absent_scope(place).map(|_| "no interface has the index behind the %: `ip link` lists them"))
}

/// Why one peer cannot have this address.
pub(crate) fn peer_problem(place: SocketAddr) -> Option<&'static str> {
    if place.ip().to_canonical().is_unspecified() {
        return Some("it stands for all addresses of a host; write one that the peer has");
    }
    if place.port() == 0 {
        return Some("port 0 stands for any free port; write the peer's port, which is in its transport's name");
    }
    address_problem(place)
}

/// Why no single host has this address. Neither a peer nor our own socket can use it.
fn address_problem(place: SocketAddr) -> Option<&'static str> {
    match place {
        _ if place.ip().is_multicast() => Some("it is a multicast address; write each host's own"),
        SocketAddr::V4(place) if place.ip().is_broadcast() => {
            Some("it is the broadcast address; write each host's own")
        }
        SocketAddr::V6(place) if place.ip().to_ipv4_mapped().is_some() => Some(
            "it is an IPv4 address in the form of IPv6, and a socket supports one of the two; write the last part alone, \
             as in 127.0.0.1:7000, at a socket that is bound to an IPv4 address",
        ),
        _ if is_link_local(place) && scope(place) == 0 => {
            Some("a link-local address needs an interface, as in [fe80::1%eth0]:7000")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: &str = "127.0.0.1:1";
    const SIX: &str = "[::1]:1";

    fn read_at(place: &str, local: &str) -> Result<SocketAddr, String> {
        parse_peer("udp", place, local.parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn places_of_one_peer_and_of_the_same_family_are_taken() {
        assert!(read_at("10.0.0.7:9000", FOUR).is_ok());
        assert_eq!(read_at("udp:10.0.0.7:9000", FOUR), read_at("10.0.0.7:9000", FOUR));
        assert_eq!(read_at("[fe80::1%lo]:9000", SIX), read_at("[fe80::1%1]:9000", SIX));
        assert!(read_at("[fe80::1%lo]:9000", SIX).is_ok());
        assert_eq!(read_at("[fd00::1%lo]:9000", SIX), read_at("[fd00::1]:9000", SIX), "the kernel ignores its scope");
    }

    /// At a link-local address the link is known.
    #[test]
    fn a_peer_on_the_link_of_this_socket_needs_no_interface() {
        const LINK: &str = "[fe80::9%1]:1";
        assert_eq!(read_at("[fe80::1]:9000", LINK), read_at("[fe80::1%lo]:9000", LINK));
        let other = peer_problem("[fe80::1%1]:9000".parse().unwrap());
        assert_eq!((other, read_at("[fd00::1]:9000", LINK).is_ok()), (None, true));
    }

    #[test]
    fn others_are_refused_with_what_to_write() {
        for (place, local, says) in [
            ("10.0.0.7", FOUR, "write 127.0.0.1:7000"),
            ("host:9000", FOUR, "write 127.0.0.1:7000"),
            ("[fe80::1%none]:9000", SIX, "there is no interface none here: `ip -brief link`"),
            ("[fe80::1%99999]:9000", SIX, "there is no interface with the index 99999 here"),
            ("[fe80::1%99999]:9000", "[fe80::9%1]:1", "there is no interface with the index 99999 here"),
            ("[fd00::1%none]:9000", SIX, "there is no interface none here"),
            ("[fe80::1%lo]:70000", SIX, "a port is at most 65535"),
            ("[fe80::1%lo", SIX, "write [::1]:7000"),
            ("127.0.0.1%lo:7000", FOUR, "write 127.0.0.1:7000"),
            ("[fe80::1%1]:9000", "[fe80::9%7]:1", "on the link of lo, and this socket is bound to [fe80::9%7]:1"),
            ("[::ffff:10.0.0.7]:7", SIX, "an IPv4 address in the form of IPv6"),
            ("[::ffff:0.0.0.0]:7", SIX, "one that the peer has"),
            ("[::1]:7", FOUR, "IPv4 only; write 127.0.0.1:7000"),
            ("10.0.0.7:9000", SIX, "IPv6 only; write [::1]:7000"),
            ("tcp:10.0.0.7:9000", FOUR, "write udp:10.0.0.7:9000"),
            ("tcp:[fe80::1%lo]:9000", SIX, "write udp:[fe80::1%lo]:9000"),
            ("10.0.0.7:0", FOUR, "port 0"),
            ("10.0.0.7:70000", FOUR, "a port is at most 65535"),
            ("0.0.0.0:7", FOUR, "one that the peer has"),
            ("[::]:7", SIX, "one that the peer has"),
            ("255.255.255.255:7", FOUR, "the broadcast address"),
            ("224.0.0.1:7", FOUR, "a multicast address"),
            ("[ff02::1]:7", SIX, "a multicast address"),
            ("[fe80::1]:7", SIX, "[fe80::1%eth0]:7000"),
        ] {
            let error = read_at(place, local).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
