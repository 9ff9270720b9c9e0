//! Places, as users write them.

use std::net::{IpAddr, SocketAddr};

use transport::IntroduceError;

/// Where somebody may be, for a socket at `local`.
///
/// # Errors
/// The text is no such place.
pub(crate) fn read(place: &str, local: SocketAddr) -> Result<SocketAddr, IntroduceError> {
    let example = if local.is_ipv4() { "127.0.0.1:7000" } else { "[::1]:7000" };
    let refused = || IntroduceError::NoPlace { place: place.into(), example };
    // As the transport there is named, or without its kind.
    let bare = ["udp:", "tcp:"].iter().find_map(|kind| place.strip_prefix(kind)).unwrap_or(place);
    let read: SocketAddr = bare.parse().map_err(|_| refused())?;
    if can_be_reached(read) && read.is_ipv4() == local.is_ipv4() { Ok(read) } else { Err(refused()) }
}

/// Whether one peer can be there, as far as the address says.
pub(crate) fn can_be_reached(place: SocketAddr) -> bool {
    let is_one = match place.ip() {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_unspecified() && !ip.is_broadcast(),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    };
    is_one && place.port() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_one_peer_and_of_the_same_family_are_taken() {
        let four = "127.0.0.1:1".parse().unwrap();
        let six = "[::1]:1".parse().unwrap();
        assert!(read("10.0.0.7:9000", four).is_ok());
        assert_eq!(read("udp:10.0.0.7:9000", four), read("10.0.0.7:9000", four));
        assert!(read("[fe80::1%2]:9000", six).is_ok());
        for place in ["10.0.0.7", "host:9000", "10.0.0.7:0", "0.0.0.0:7", "255.255.255.255:7", "224.0.0.1:7", "[::1]:7"]
        {
            let error = read(place, four).unwrap_err().to_string();
            assert!(error.contains("write 127.0.0.1:7000"), "{error}");
        }
        assert!(read("10.0.0.7:9000", six).is_err());
    }
}
