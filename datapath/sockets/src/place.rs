//! Places, as users write them.

use std::net::SocketAddr;

use am_transport::IntroduceError;
use nix::net::if_::if_nametoindex;

/// A place with an address and a port. Where an interface's number belongs its name will do: `[fe80::1%eth0]:7000`.
pub(crate) fn parse(text: &str) -> Option<SocketAddr> {
    text.parse().ok().or_else(|| {
        let (before, rest) = text.split_once('%')?;
        let (interface, after) = rest.split_once(']')?;
        let number = if_nametoindex(interface).ok()?;
        format!("{before}%{number}]{after}").parse().ok()
    })
}

/// What to write instead of a text that is no place.
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

/// The transports that have places like ours.
const SCHEMES: [&str; 2] = ["udp", "tcp"];

/// Where somebody may be, for a socket at `local`: `IP:PORT`, with our own `scheme` before it or none.
///
/// # Errors
/// The text is no such place, or one of the other transport's: by this one nobody listens there.
pub(crate) fn read(scheme: &str, place: &str, local: SocketAddr) -> Result<SocketAddr, IntroduceError> {
    let example = if local.is_ipv4() { "127.0.0.1:7000" } else { "[::1]:7000" };
    let (its, bare) = place.split_once(':').filter(|(its, _)| SCHEMES.contains(its)).unwrap_or((scheme, place));
    let no_peer = |why: &str| IntroduceError::NoPeer { place: place.into(), why: why.into() };
    let read = parse(bare).ok_or_else(|| match port_is_too_large(bare) {
        true => no_peer(hint(bare)),
        false => IntroduceError::NoPlace { place: place.into(), example },
    })?;
    if its != scheme {
        return Err(no_peer(&format!(
            "by {its} this node reaches nobody; write {scheme}:{bare} if a {scheme} node is there, or open {its} as well"
        )));
    }
    if read.is_ipv4() != local.is_ipv4() {
        let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(no_peer(&format!(
            "this socket is at {local} and speaks {family} only; write {example}, for instance"
        )));
    }
    flaw(read).map_or(Ok(read), |why| Err(no_peer(why)))
}

/// Whether one peer can be there, as far as the address says.
pub(crate) fn can_be_reached(place: SocketAddr) -> bool {
    flaw(place).is_none()
}

/// Why one peer cannot be there.
fn flaw(place: SocketAddr) -> Option<&'static str> {
    if place.ip().is_unspecified() {
        return Some("that is every address of a host and nobody's; write one that the peer has");
    }
    if place.port() == 0 {
        return Some("port 0 stands for any that is free; write the one that the peer got, which its own name says");
    }
    misfit(place)
}

/// Why it is no address of one host: neither a peer nor a socket of ours can be there.
pub(crate) fn misfit(place: SocketAddr) -> Option<&'static str> {
    match place {
        _ if place.ip().is_multicast() => Some("it is a group's address; write each host's own"),
        SocketAddr::V4(place) if place.ip().is_broadcast() => Some("it is everybody's address; write each host's own"),
        SocketAddr::V6(place) if place.ip().is_unicast_link_local() && place.scope_id() == 0 => {
            Some("on each interface it may be somebody else's; say which one, as in [fe80::1%eth0]:7000")
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
        read("udp", place, local.parse().unwrap()).map_err(|error| error.to_string())
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
            ("255.255.255.255:7", FOUR, "everybody's"),
            ("224.0.0.1:7", FOUR, "a group's"),
            ("[ff02::1]:7", SIX, "a group's"),
            ("[fe80::1]:7", SIX, "[fe80::1%eth0]:7000"),
        ] {
            let error = read_at(place, local).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
