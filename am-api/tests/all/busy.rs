//! A program that does not poll is not taken for a dead one: a handler that sleeps, and a process that is stopped where
//! something outside it says that it lives.

use std::net::Ipv4Addr;
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

/// One call, which sleeps again and again, and not many short ones.
#[test]
fn one_long_wait_for_a_connection_is_as_patient() {
    let on = format!("shm:am-api-busy-long-{}", process::id());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| serve(&open("beta", &on), Duration::from_secs(8), &stop));
        let connected = std::panic::catch_unwind(|| {
            let (alpha, mut noted) = (open("alpha", &on), Noted::default());
            let mut first = asking(&alpha);
            let to = first.connect("beta", "main").unwrap();
            first.wait_open(&mut noted, to, LONG).unwrap();
            first.try_request(to, HandlerId(0), &[1], b"").unwrap();
            first.flush();
            let gamma = open("gamma", &on);
            let mut second = asking(&gamma);
            let to = second.connect("beta", "main").unwrap();
            second.wait_open(&mut noted, to, LONG)
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        connected.unwrap().unwrap_or_else(|why| panic!("{why}"));
    });
}

#[test]
fn a_node_that_waits_long_is_not_late() {
    for on in ["udp:127.0.0.1:0".to_owned(), format!("shm:am-api-waits-{}", process::id())] {
        let (node, mut noted) = (open("alpha", &on), Noted::default());
        let mut endpoint = asking(&node);
        let seconds = 5;
        (0..seconds).for_each(|_| _ = endpoint.wait(&mut noted, Duration::from_secs(1)));
        // On a busy machine the thread may have been kept from polling, but not each time.
        assert!(node.counters().get("late") < seconds / 2, "{:?}\n{}", node.health(), node.counters());
    }
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
    let port = am_netns::free_port(Ipv4Addr::LOCALHOST);
    outlasts_a_stop(&format!("tcp:127.0.0.1:{port}"), &format!("tcp:127.0.0.1:0,peer=127.0.0.1:{port}"));
}

#[test]
fn a_stopped_process_lives_behind_amd() {
    let daemon = Serving::start();
    outlasts_a_stop(&daemon.transport(), &daemon.transport());
}
