//! A daemon that does not answer: `amd list` says so, and ends.

use std::process::Command;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::common::Place;

fn list(place: &Place) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_amd")).args(["list", "--socket"]).arg(place.socket()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_silent_daemon_is_not_waited_for_without_limit() {
    let place = Place::new();
    let silent = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&silent, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
    listen(&silent, 0).unwrap();
    // The first one's connection still waits to be accepted, and there is no room for the second one's.
    for _ in 0..2 {
        let said = list(&place);
        assert!(said.contains("has not answered for 5 s") && said.contains("kill -CONT"), "{said}");
    }
}
