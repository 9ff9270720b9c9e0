//! What is refused, by both kinds, with what to do about it.

use std::process::Command;

use crate::ends::{tcp, udp};
use am_sockets::{SocketOpenError, SocketOptions};
use am_transport::{PeerAddressError, Transport, TransportExt};

fn error(name: &str) -> SocketOpenError {
    let options = SocketOptions::from_name(&name.parse().unwrap()).unwrap();
    let error = if name.starts_with("udp") {
        am_sockets::udp::open(&options).err()
    } else {
        am_sockets::tcp::open(&options).err()
    };
    error.unwrap_or_else(|| panic!("{name} was opened"))
}

#[test]
fn a_place_of_the_other_transport() {
    let (mut udp, mut tcp) = (udp("udp:127.0.0.1:0"), tcp("tcp:127.0.0.1:0"));
    let ends: [(&mut dyn Transport, _, _); 2] = [(&mut udp, "udp", "tcp"), (&mut tcp, "tcp", "udp")];
    for (end, own, other) in ends {
        let introduced = end.add_peer(&format!("{other}:127.0.0.1:7000")).unwrap_err();
        assert!(matches!(introduced, PeerAddressError::NoPeer { .. }), "{introduced}");
        assert!(introduced.to_string().contains(&format!("write {own}:127.0.0.1:7000")), "{introduced}");
        assert!(end.remove_peer(&format!("{other}:127.0.0.1:7000")).is_err());
        end.add_peer(&format!("{own}:127.0.0.1:7000")).unwrap();
    }
}

/// An address that no socket can be bound to, or that no peer can have, is refused when the transport is opened.
#[test]
fn addresses_that_cannot_work() {
    for (rest, says) in [
        ("[::ffff:127.0.0.1]:0", "an IPv4 address in the form of IPv6"),
        ("[::1]:0,peer=[::ffff:127.0.0.1]:7", "an IPv4 address in the form of IPv6"),
        ("[::1]:0,peer=127.0.0.1:7", "supports IPv6 only"),
        ("[::]:0,peer=127.0.0.1:7", "supports IPv6 only"),
        ("[::1]:0,peer=[::1]:0", "port 0 stands for any free port"),
        ("[::1]:0,peer=[::]:7", "write one that the peer has"),
        ("[::1]:0,peer=[ff02::1]:7", "a multicast address"),
        ("[ff02::1]:0", "a multicast address"),
        ("[fe80::1]:0", "needs an interface"),
        ("[::1]:0,peer=[fe80::1]:7", "needs an interface"),
        ("127.0.0.1:0,peer=0.0.0.0:7", "write one that the peer has"),
        ("127.0.0.1:0,peer=127.0.0.1:0", "port 0 stands for any free port"),
        ("127.0.0.1:0,peer=224.0.0.1:7", "a multicast address"),
    ] {
        for scheme in ["udp", "tcp"] {
            let error = error(&format!("{scheme}:{rest}")).to_string();
            assert!(error.contains(says), "{scheme}:{rest}: {error}");
        }
    }
    let mut absent: SocketOptions = SocketOptions::new("[fe80::1]:0".parse().unwrap());
    if let std::net::SocketAddr::V6(local) = &mut absent.local {
        local.set_scope_id(99_999);
    }
    let error = am_sockets::tcp::open(&absent).err().unwrap().to_string();
    assert!(error.contains("no interface has the index"), "{error}");
}

/// A socket at `[::]` accepts nothing from IPv4 addresses. Its mode says so.
#[test]
fn all_addresses_of_ipv6_are_none_of_ipv4() {
    for name in ["udp:[::]:0", "tcp:[::]:0"] {
        let mode = if name.starts_with("udp") { udp(name).caps().mode.clone() } else { tcp(name).caps().mode.clone() };
        assert!(mode.ends_with(", IPv6 only"), "{name}: {mode}");
    }
    assert!(!udp("udp:[::1]:0").caps().mode.contains("only"));
}

#[test]
fn buffers_that_carry_nothing() {
    for (name, least) in [
        ("udp:127.0.0.1:0,buffer=0", None),
        ("udp:127.0.0.1:0,frame=8000,buffer=7999", Some(8000)),
        ("udp:127.0.0.1:0,frame=1000,buffer=2303", Some(2304)),
        ("tcp:127.0.0.1:0,buffer=0", Some(2304)),
    ] {
        match error(name) {
            SocketOpenError::SmallBuffer { least: is, .. } => {
                assert!(least.is_none_or(|least| least == is), "{name}: {is}")
            }
            other => panic!("{name}: {other}"),
        }
    }
    drop((udp("udp:127.0.0.1:0,frame=1000,buffer=2304"), tcp("tcp:127.0.0.1:0,buffer=2304")));
}

const NAME: &str = "SOCKETS_TEST_NAME";

#[test]
#[ignore = "started by more_descriptors_than_a_process_may_have"]
fn limited() {
    let error = error(&std::env::var(NAME).unwrap());
    assert!(
        matches!(error, SocketOpenError::Descriptors { .. }) && error.to_string().contains("`ulimit -n`"),
        "{error}"
    );
}

#[test]
fn more_descriptors_than_a_process_may_have() {
    let program = std::env::current_exe().unwrap();
    for (limit, name) in [(4, "udp"), (4, "tcp"), (5, "tcp"), (6, "tcp")] {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -n {limit} && exec \"$0\" --exact refused::limited --ignored --nocapture")]);
        let status = command.arg(&program).env(NAME, format!("{name}:127.0.0.1:0,frame=1514")).status().unwrap();
        assert!(status.success(), "ulimit -n {limit}: {name}");
    }
}
