//! Programs that wait in a loop of their own, and wakers.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::daemon::Serving;
use crate::common::{LONG, Side, plain, until};
use crate::own_loop::{self, Wakes};
use am_api::{HandlerId, Idle};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

fn ping_pong(alpha_on: &str, beta_on: &str) {
    let open = |on: &str| am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
    own_loop::ping_pong(Wakes::Frames, || open(alpha_on), || open(beta_on));
}

/// Names of both ends, which know each other's address.
pub(crate) fn sockets(scheme: &str) -> [String; 2] {
    let [a, b] = [(); 2].map(|()| am_netns::free_port(Ipv4Addr::LOCALHOST));
    [(a, b), (b, a)].map(|(own, peer)| format!("{scheme}:127.0.0.1:{own},peer=127.0.0.1:{peer}"))
}

#[test]
fn over_a_simulated_network() {
    ping_pong("sim:131", "sim:131");
}

#[test]
fn over_shared_memory() {
    let name = format!("shm:own-epoll-{}", std::process::id());
    ping_pong(&name, &name);
}

#[test]
fn over_udp() {
    let [alpha, beta] = sockets("udp");
    ping_pong(&alpha, &beta);
}

#[test]
fn over_tcp() {
    let [alpha, beta] = sockets("tcp");
    ping_pong(&alpha, &beta);
}

#[test]
fn over_a_daemon() {
    let daemon = Serving::start();
    ping_pong(&daemon.transport(), &daemon.transport());
}

#[test]
fn over_several_at_once() {
    let [alpha, beta] = sockets("udp");
    let shm = format!("shm:own-epolls-{}", std::process::id());
    ping_pong(&format!("{shm}+{alpha}"), &format!("{shm}+{beta}"));
}

/// While a socket is in an `epoll`, each frame that arrives runs the `epoll`'s callback, even if no thread sleeps.
#[test]
fn a_node_that_spins_watches_its_transport_from_the_next_wait_on() {
    let names = sockets("udp");
    let open = |name, on: &str| Side::<u64>::open(plain(name), am_api::transports::open(on).unwrap());
    let (mut alpha, mut beta) = (open("alpha", &names[0]), open("beta", &names[1]));
    let descriptor = alpha.endpoint.descriptor().unwrap();
    let is_readable =
        |wait: PollTimeout| poll(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], wait).unwrap() > 0;
    let to = beta.endpoint.connect("alpha", "main").unwrap();
    until(&mut alpha, &mut beta, "connected", |_, beta| beta.endpoint.is_open(to));
    let spin = |alpha: &mut Side<u64>| while (0..1200).any(|_| alpha.poll() > 0) {};
    spin(&mut alpha);
    beta.endpoint.try_request(to, HandlerId(0), &[], b"").expect("credit");
    beta.endpoint.flush();
    assert!(!is_readable(PollTimeout::from(20u16)));
    assert!(!alpha.endpoint.prepare_wait().unwrap(), "it looks for frames, and finds one");
    spin(&mut alpha);
    while !alpha.endpoint.prepare_wait().unwrap() {
        alpha.poll();
    }
    beta.endpoint.try_request(to, HandlerId(0), &[], b"").expect("credit");
    beta.endpoint.flush();
    assert!(is_readable(PollTimeout::from(5_000u16)));
}

#[test]
fn a_waker_ends_a_wait() {
    let transport = am_api::transports::open("sim:132").unwrap();
    let mut alone = Side::<u64>::open(plain("alpha").idle(Idle::sleeping()), transport);
    let waker = alone.node.waker().unwrap();
    for pause in [0, 30] {
        let waker = waker.clone();
        let start = Instant::now();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(pause));
            waker.wake();
        });
        assert_eq!(alone.endpoint.wait(&mut alone.state, LONG), 0);
        assert!(start.elapsed() < LONG / 2);
        other.join().unwrap();
    }
    // It is used up.
    let start = Instant::now();
    alone.endpoint.wait(&mut alone.state, Duration::from_millis(20));
    assert!(start.elapsed() >= Duration::from_millis(20));
}
