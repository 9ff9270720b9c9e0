//! Reads and checks socket addresses, as users write them.

use std::net::SocketAddr;

use am_transport::PeerAddressError;
use nix::net::if_::if_nametoindex;

/// Read an IP address and a port. The scope may be an interface's name: `[fe80::1%eth0]:7000`.
pub(crate) fn parse(text: &str) -> Option<SocketAddr> {
    text.parse().ok().or_else(|| {
        let (before, rest) = text.split_once('%')?;
        let (interface, after) = rest.split_once(']')?;
        let number = if_nametoindex(interface).ok()?;
        format!("{before}%{number}]{after}").parse().ok()
    })
}

/// What to write instead of an invalid text.
pub(crate) fn hint(text: &str) -> &'static str {
    if port_is_too_large(text) {
        return "a port is at most 65535";
    }
    "an address and a port, as in 127.0.0.1:7000 or [::1]:7000 (names of hosts are not looked up)"
}

fn port_is_too_large(text: &str) -> bool {
    let port = text.rsplit_once(':').map_or("", |(_, port)| port);
    !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()) && port.parse::<u16>().is_err()
}

/// The transports that have such addresses.
const SCHEMES: [&str; 2] = ["udp", "tcp"];

/// Read a peer's address for a socket at `local`: `IP:PORT`, with or without our own `scheme` before it.
///
/// # Errors
/// The text is no such address, or it names the other transport, which this one cannot reach.
pub(crate) fn parse_peer(scheme: &str, place: &str, local: SocketAddr) -> Result<SocketAddr, PeerAddressError> {
    let example = if local.is_ipv4() { "127.0.0.1:7000" } else { "[::1]:7000" };
    let (its, bare) = place.split_once(':').filter(|(its, _)| SCHEMES.contains(its)).unwrap_or((scheme, place));
    let no_peer = |why: &str| PeerAddressError::NoPeer { place: place.into(), why: why.into() };
    let read = parse(bare).ok_or_else(|| match port_is_too_large(bare) {
        true => no_peer(hint(bare)),
        false => PeerAddressError::NoPlace { place: place.into(), example },
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
    peer_problem(read).map_or(Ok(read), |why| Err(no_peer(why)))
}

/// Why one peer cannot have this address.
pub(crate) fn peer_problem(place: SocketAddr) -> Option<&'static str> {
    if place.ip().is_unspecified() {
        return Some("it stands for all addresses of a host; write one that the peer has");
    }
    if place.port() == 0 {
        return Some("port 0 stands for any free port; write the peer's port, which is in its transport's name");
    }
    address_problem(place)
}

/// Why no single host has this address. Neither a peer nor our own socket can use it.
pub(crate) fn address_problem(place: SocketAddr) -> Option<&'static str> {
    match place {
        _ if place.ip().is_multicast() => Some("it is a multicast address; write each host's own"),
        SocketAddr::V4(place) if place.ip().is_broadcast() => {
            Some("it is the broadcast address; write each host's own")
        }
        SocketAddr::V6(place) if place.ip().is_unicast_link_local() && place.scope_id() == 0 => {
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
    }

    #[test]
    fn others_are_refused_with_what_to_write() {
        for (place, local, says) in [
            ("10.0.0.7", FOUR, "write 127.0.0.1:7000"),
            ("host:9000", FOUR, "write 127.0.0.1:7000"),
            ("[fe80::1%none]:9000", SIX, "write [::1]:7000"),
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
