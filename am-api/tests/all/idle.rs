//! A node that waits uses no processor, over each transport, blocked or in a loop of its own.

use crate::common::daemon::Serving;
use crate::idling::{Wait, both_idle};
use crate::own_epoll::sockets;

fn idle_over(names: impl Fn() -> [String; 2]) {
    for how in [Wait::Blocked, Wait::OwnLoop] {
        let [alpha, beta] = names();
        let open = |on: String| move || am_api::transports::open(&on).unwrap_or_else(|error| panic!("{error}"));
        both_idle(how, open(alpha), open(beta));
    }
}

#[test]
fn over_a_simulated_network() {
    idle_over(|| [(); 2].map(|()| "sim:151".to_owned()));
}

#[test]
fn over_shared_memory() {
    idle_over(|| [(); 2].map(|()| format!("shm:idle-{}", std::process::id())));
}

#[test]
fn over_udp() {
    idle_over(|| sockets("udp"));
}

#[test]
fn over_tcp() {
    idle_over(|| sockets("tcp"));
}

#[test]
fn over_a_daemon() {
    let daemon = Serving::start();
    idle_over(|| [(); 2].map(|()| daemon.transport()));
}

#[test]
fn over_several_at_once() {
    let shm = format!("shm:idle-both-{}", std::process::id());
    idle_over(|| sockets("udp").map(|udp| format!("{shm}+{udp}")));
}
