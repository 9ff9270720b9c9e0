//! A node whose interface gets another address, or was in another network namespace: its peers go on with it. Needs root.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Endpoint, HandlerId, Node, Problem, Request};
use am_netns::{Host, VethOptions, veth};

const ECHO: HandlerId = HandlerId(1);
/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(60);
const NEW: &str = "02:11:22:33:44:55";

fn ip(host: &Host, words: &str) {
    let status = host.enter(|| Command::new("ip").args(words.split(' ')).status());
    assert!(status.unwrap().unwrap().success(), "ip {words}");
}

/// Beta answers until it is stopped.
fn serve(on: &str, stop: &AtomicBool) {
    let node = Node::builder("beta").beacon(Duration::from_secs(600)).open(on).unwrap();
    let mut endpoint = node.endpoint::<()>("app").unwrap();
    endpoint.on_request(ECHO, |(), Request { message, token }| {
        token.reply(ECHO, message.words(), message.payload()).unwrap()
    });
    while !stop.load(Relaxed) {
        endpoint.wait(&mut (), Duration::from_millis(5));
    }
}

fn open() -> Node {
    Node::builder("alpha").beacon(Duration::from_secs(600)).open("xdp:am0").unwrap()
}

/// Ask until an answer comes on a connection, the same or a new one.
fn is_answered(endpoint: &mut Endpoint<u64>, answers: &mut u64) {
    let (before, begin) = (*answers, Instant::now());
    let mut to = None;
    while *answers == before {
        assert!(begin.elapsed() < LONG, "no answer");
        let at = *to.get_or_insert_with(|| endpoint.connect("beta", "app").unwrap());
        if endpoint.wait_open(answers, at, Duration::from_millis(200)).is_err()
            || endpoint.try_request(at, ECHO, &[1], b"").is_err()
        {
            to = None;
            continue;
        }
        endpoint.wait_until(answers, Duration::from_millis(500), |answers| *answers > before);
    }
}

fn both(alpha: &Host, beta: &Host, on: &str, work: impl FnOnce(&Node, &mut Endpoint<u64>, &mut u64) + Send) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| beta.enter(|| serve(on, &stop)).unwrap());
        let asked = scope.spawn(|| {
            let ask = || {
                let node = open();
                let mut endpoint = node.endpoint::<u64>("app").unwrap();
                endpoint.on_reply(ECHO, |answers, _| *answers += 1);
                let mut answers = 0;
                is_answered(&mut endpoint, &mut answers);
                work(&node, &mut endpoint, &mut answers);
            };
            alpha.enter(ask).unwrap()
        });
        let asked = asked.join();
        stop.store(true, Relaxed);
        serving.join().unwrap();
        asked.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
}

fn cable() -> [Host; 2] {
    let hosts = ["alpha", "beta"].map(|name| Host::new(name).unwrap());
    veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
    hosts
}

/// A macvlan filters by its address, as a NIC does. Messages on the open connection go on, and new ones connect.
#[test]
fn a_new_address_behind_a_filter() {
    let [alpha, beta] = cable();
    ip(&beta, "link add am1 link am0 type macvlan mode bridge");
    ip(&beta, "link set am1 up");
    both(&alpha, &beta, "xdp:am1,attach=generic", |node, endpoint, answers| {
        let to = endpoint.connect("beta", "app").unwrap();
        endpoint.wait_open(answers, to, LONG).unwrap();
        ip(&beta, &format!("link set am1 address {NEW}"));
        let known = |node: &Node| node.peers().iter().any(|peer| peer.address.to_string() == NEW);
        let (begin, mut sent) = (Instant::now(), *answers);
        while !known(node) || *answers < sent {
            assert!(begin.elapsed() < LONG, "{} of {sent} answers, {:?}", *answers, node.peers());
            endpoint.try_request(to, ECHO, &[1], b"").unwrap_or_else(|error| panic!("the connection: {error}"));
            sent += 1;
            endpoint.wait_until(answers, Duration::from_millis(1000), |answers| *answers == sent);
        }
        is_answered(endpoint, answers);
        // A busy machine may keep the thread from polling.
        assert!(matches!(node.health(), Ok(()) | Err(Problem::Late(_))), "{:?}", node.health());
    });
}

/// The interface comes back with the index that it had.
#[test]
fn a_visit_to_another_namespace() {
    let [alpha, beta] = cable();
    let elsewhere = Host::new("elsewhere").unwrap();
    both(&alpha, &beta, "xdp:am0", |_, endpoint, answers| {
        ip(&beta, &format!("link set am0 netns {}", elsewhere.path()));
        ip(&elsewhere, &format!("link set am0 netns {}", beta.path()));
        ip(&beta, "link set am0 up");
        is_answered(endpoint, answers);
    });
}
