//! What carries our messages where that is no interface: transports by the names that a user would say.

use std::net::SocketAddr;

use transport::Transport;

use super::am::facility;
use crate::error::Error;
use crate::plan::{Carrier, Place};

/// Both sides' port: the number of our EtherType.
const PORT: u16 = 0x88b5;

/// What carries our messages between these places, each of which knows the other; `None` for what the interface
/// itself does.
///
/// # Errors
/// The places have no addresses, or it cannot be opened.
pub(crate) fn open(carrier: Carrier, here: &Place, peer: &Place) -> Result<Option<Box<dyn Transport>>, Error> {
    let name = match carrier {
        Carrier::Xdp => return Ok(None),
        Carrier::Udp => on_addresses("udp", here, peer)?,
        Carrier::Tcp => return tcp(&on_addresses("tcp", here, peer)?).map(Some),
        Carrier::Shm => format!("shm:{}", between(here, peer)),
    };
    transports::open(&name).map(Some).map_err(facility)
}

fn tcp(name: &str) -> Result<Box<dyn Transport>, Error> {
    let options = sockets::Options::from_name(&name.parse().map_err(facility)?).map_err(facility)?;
    Ok(Box::new(sockets::tcp::open(&options).map_err(facility)?))
}

/// On the addresses of the interfaces.
fn on_addresses(scheme: &str, here: &Place, peer: &Place) -> Result<String, Error> {
    let (own, other) = here.ip_towards(peer).ok_or(Error::NoIp)?;
    let [own, other] = [own, other].map(|ip| SocketAddr::new(ip, PORT));
    Ok(format!("{scheme}:{own},peer={other}"))
}

/// The same from both sides, and no other pair's: interfaces' addresses are drawn at random.
fn between(here: &Place, peer: &Place) -> String {
    let hex = |place: &Place| place.address.map(|byte| format!("{byte:02x}")).concat();
    let mut both = [hex(here), hex(peer)];
    both.sort_unstable();
    format!("bench-{}", both.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_call_it_the_same() {
        let place = |last| {
            let (address, ipv4) = ([2, 0, 0, 0, 0xab, last], Some([10, 0, 0, last].into()));
            Place { name: String::new(), address, ipv4, ipv6: None, core: None, mtu: None }
        };
        let (a, b) = (place(1), place(0x10));
        assert_eq!(between(&a, &b), "bench-02000000ab01-02000000ab10");
        assert_eq!(between(&a, &b), between(&b, &a));
        assert_eq!(on_addresses("udp", &a, &b).unwrap(), "udp:10.0.0.1:34997,peer=10.0.0.16:34997");
    }
}
