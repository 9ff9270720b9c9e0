//! A program that does not poll is not taken for a dead one: a handler that sleeps, and a process that is stopped where
//! something outside it says that it lives.

use std::process;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use am_api::{HandlerId, Node};
use am_transport::loopback;
use nix::sys::signal::Signal;

use crate::busy_server::{Noted, asking, loses_nothing, serve};
use crate::common::LONG;
use crate::common::daemon::Serving;
use crate::doomed::{PLACE, Receiver};

const NOTE: HandlerId = HandlerId(1);

fn open(name: &str, on: &str) -> Node {
    Node::open(name, on).unwrap_or_else(|error| panic!("{error}"))
}

fn over_sockets(kind: &str) {
    let on = format!("{kind}:127.0.0.1:0");
    let prefix = format!("{kind}:");
    loses_nothing(
        || open("beta", &on),
        |name, place| Some(open(name, &format!("{on},peer={}", place.trim_start_matches(&prefix)))),
    );
}

#[test]
fn over_udp() {
    over_sockets("udp");
}

#[test]
fn over_tcp() {
    over_sockets("tcp");
}

#[test]
fn over_shm() {
    let on = format!("shm:am-api-busy-{}", process::id());
    loses_nothing(|| open("beta", &on), |name, _| Some(open(name, &on)));
}

#[test]
fn over_several() {
    let on = format!("udp:127.0.0.1:0+shm:am-api-busy-two-{}", process::id());
    loses_nothing(
        || open("beta", &on),
        |name, place| {
            let udp = place.split('+').find_map(|path| path.strip_prefix("udp:")).unwrap();
            Some(open(name, &on.replacen("udp:127.0.0.1:0", &format!("udp:127.0.0.1:0,peer={udp}"), 1)))
        },
    );
}

#[test]
fn over_a_wire_in_memory() {
    let [left, right] = loopback::pair();
    let mut left = Some(left);
    let on = |name: &str, plug: loopback::Plug| Node::open_on(name, Box::new(plug.open().unwrap())).unwrap();
    loses_nothing(|| on("beta", right), |name, _| left.take().map(|left| on(name, left)));
}

#[test]
fn over_amd() {
    let daemon = Serving::start();
    let on = daemon.transport();
    loses_nothing(|| open("beta", &on), |name, _| Some(open(name, &on)));
}

#[test]
#[ignore = "started by the tests of stopped processes"]
fn stopped() {
    let node = open("beta", &std::env::var(PLACE).unwrap());
    crate::doomed::is_open();
    serve(&node, Duration::ZERO, &AtomicBool::new(false));
}

/// A process is stopped for longer than the patience. Nothing comes back.
fn outlasts_a_stop(server: &str, client: &str) {
    let process = Receiver::start("busy::stopped", server);
    let node = open("alpha", client);
    let (mut endpoint, mut noted) = (asking(&node), Noted::default());
    let to = endpoint.connect("beta", "main").unwrap();
    endpoint.wait_open(&mut noted, to, LONG).unwrap_or_else(|error| panic!("{error}"));
    process.stop();
    let resumes = thread::scope(|scope| {
        (0..20).for_each(|number| endpoint.try_request(to, NOTE, &[number], b"").unwrap());
        let resumes = scope.spawn(|| {
            thread::sleep(Duration::from_secs(5));
            process.signal(Signal::SIGCONT);
        });
        while !resumes.is_finished() {
            endpoint.wait(&mut noted, Duration::from_millis(50));
            assert!(endpoint.is_open(to), "{noted:?}");
        }
        resumes.join()
    });
    resumes.unwrap();
    let start = std::time::Instant::now();
    while !endpoint.is_accepted(to) {
        endpoint.wait(&mut noted, Duration::from_millis(50));
        assert!(start.elapsed() < LONG, "{noted:?}");
    }
    assert!(noted.came_back.is_empty() && noted.ended.is_empty(), "{noted:?}");
}

#[test]
fn a_stopped_process_lives_over_shm() {
    let on = format!("shm:am-api-stopped-{}", process::id());
    outlasts_a_stop(&on, &on);
}

#[test]
fn a_stopped_process_lives_over_tcp() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    outlasts_a_stop(&format!("tcp:127.0.0.1:{port}"), &format!("tcp:127.0.0.1:0,peer=127.0.0.1:{port}"));
}

#[test]
fn a_stopped_process_lives_behind_amd() {
    let daemon = Serving::start();
    outlasts_a_stop(&daemon.transport(), &daemon.transport());
}
