//! A daemon's socket at which as many programs wait as fit.

use std::time::Duration;

use am_vnic::{VnicOpenError, VnicOptions};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};

fn socket() -> rustix::fd::OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

#[test]
fn a_program_waits_until_there_is_room_for_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("amd.sock");
    let (listener, address) = (socket(), SocketAddrUnix::new(&path).unwrap());
    bind(&listener, &address).unwrap();
    listen(&listener, 1).unwrap();
    let mut waiting = vec![];
    let full = loop {
        let socket = socket();
        match connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(why) => break why,
        }
    };
    assert_eq!(full, rustix::io::Errno::AGAIN);

    let options = VnicOptions::new(&path);
    assert!(matches!(am_vnic::begin(&options), Err(VnicOpenError::Crowded { .. })));
    let opened = std::thread::scope(|scope| {
        let program = scope.spawn(|| am_vnic::open(&options).err());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!program.is_finished(), "{:?}", program.join());
        // All are accepted, and turned away.
        while !program.is_finished() {
            _ = accept_with(&listener, SocketFlags::CLOEXEC);
            std::thread::yield_now();
        }
        program.join().unwrap()
    });
    assert!(matches!(opened, Some(VnicOpenError::NoDaemon { .. })), "{opened:?}");
}
