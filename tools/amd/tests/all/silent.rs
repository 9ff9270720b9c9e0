//! A daemon that does not answer: `amd list` says so, and ends. One that answers late is waited for.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use am_daemon::admin::{self, Answer, Question};
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::Signal;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, recv, send,
    socket_with,
};

use crate::common::Place;

/// A socket as that of a daemon. So many may wait there besides one.
fn listener(place: &Place, waiting: i32) -> OwnedFd {
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
    listen(&listener, waiting).unwrap();
    listener
}

fn list(place: &Place) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_amd")).args(["list", "--socket"]).arg(place.socket()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_silent_daemon_is_not_waited_for_without_limit() {
    let place = Place::new();
    let _silent = listener(&place, 0);
    // The first one's connection still waits to be accepted, and there is no room for the second one's.
    for _ in 0..2 {
        let said = list(&place);
        assert!(said.contains("has not answered for 5 s") && said.contains("kill -CONT"), "{said}");
    }
}

#[test]
fn signals_do_not_end_the_wait_for_an_answer() {
    signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::new(AtomicBool::new(false))).unwrap();
    let place = Place::new();
    let (late, asker) = (listener(&place, 1), pthread_self());
    let answered = thread::scope(|scope| {
        scope.spawn(|| {
            let asked = accept(&late).unwrap();
            recv(&asked, &mut [0; 64], RecvFlags::empty()).unwrap();
            for _ in 0..100 {
                pthread_kill(asker, Signal::SIGUSR2).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            send(&asked, &serde_json::to_vec(&Answer::Done).unwrap(), SendFlags::empty()).unwrap();
        });
        admin::ask(&place.socket(), &Question::List)
    });
    assert_eq!(answered.unwrap(), Answer::Done);
}
