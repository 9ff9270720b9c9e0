//! One process, two nodes, two threads: each on a queue of its own of one interface, at both ends of a cable. Each talks
//! to its peer while the other does, and goes on when the other closes. Needs root.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Endpoint, HandlerId, Node, Request};
use am_netns::{Host, VethOptions, veth};

const ECHO: HandlerId = HandlerId(1);
const LONG: Duration = Duration::from_secs(60);
const MESSAGES: u64 = 5_000;

#[derive(Default)]
struct Seen {
    replies: u64,
    wrong: u64,
}

/// Bytes that depend on the message's number, and on whose it is.
fn payload(whose: &str, number: u64) -> Vec<u8> {
    let salt = u64::from(whose.as_bytes()[0]);
    (0..number % 1400).map(|at| (salt + number.wrapping_mul(31) + at * 7) as u8).collect()
}

fn node(name: &str, queue: u32) -> (Node, Endpoint<Seen>) {
    let transport =
        am_api::transports::open(&format!("xdp:am0,queue={queue}")).unwrap_or_else(|error| panic!("{error}"));
    let node = Node::open_on(name, transport).unwrap();
    let endpoint = node.endpoint("app").unwrap();
    (node, endpoint)
}

/// Wait for what another thread does; it may have failed.
fn until(done: &AtomicBool) {
    let start = Instant::now();
    while !done.load(Relaxed) {
        assert!(start.elapsed() < LONG, "another node has failed");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Answer until the parent stops this process.
fn serve(name: &str, queue: u32, stop: &AtomicBool) {
    let (_node, mut endpoint) = node(name, queue);
    endpoint.on_request(ECHO, |_, Request { message: request, token }| {
        token.reply(ECHO, request.words(), request.payload()).unwrap()
    });
    while !stop.load(Relaxed) {
        endpoint.wait(&mut Seen::default(), Duration::from_millis(5));
    }
}

/// Open a node, wait for what comes `first`, and ask the peer; in the midst of it wait until it `may_go_on`.
fn ask((name, peer): (&'static str, &str), queue: u32, first: impl Fn(), may_go_on: impl Fn() -> bool) {
    let (node, mut endpoint) = node(name, queue);
    first();
    endpoint.on_reply(ECHO, move |seen, reply| {
        seen.replies += 1;
        seen.wrong += u64::from(reply.payload() != payload(name, reply.word(0)));
    });
    let mut seen = Seen::default();
    let to = endpoint.connect(peer, "app").unwrap();
    endpoint.wait_open(&mut seen, to, LONG).unwrap_or_else(|error| panic!("{name}: {error}: {:?}", node.health()));
    for number in 0..MESSAGES {
        while let Err(error) = endpoint.try_request(to, ECHO, &[number], &payload(name, number)) {
            assert!(error.is_temporary(), "{name}: {error}");
            endpoint.poll(&mut seen);
        }
        if number == MESSAGES / 2 {
            assert!(endpoint.wait_until(&mut seen, LONG, |_| may_go_on()), "the other node has failed");
        }
    }
    let all = endpoint.wait_until(&mut seen, LONG, |seen| seen.replies == MESSAGES);
    assert!(all, "{name}: {} replies: {}", seen.replies, node.counters());
    assert_eq!(seen.wrong, 0);
}

#[test]
fn two_nodes_of_a_process_talk_to_a_peer_each() {
    let (here, there) = (Host::new("near").unwrap(), Host::new("far").unwrap());
    let (near, far) = veth(&here, "am0", &there, "am0", &VethOptions { queues: 2, ..VethOptions::default() }).unwrap();
    let [stop, anna_is_open, bert_is_open, anna_is_closed] = &[const { AtomicBool::new(false) }; 4];
    let anna = || {
        ask(("anna", "carl"), 0, || (anna_is_open.store(true, Relaxed), until(bert_is_open)).1, || true);
        anna_is_closed.store(true, Relaxed);
    };
    let bert = || {
        let opened = || (until(anna_is_open), bert_is_open.store(true, Relaxed)).1;
        ask(("bert", "dora"), 1, opened, || anna_is_closed.load(Relaxed));
    };
    thread::scope(|scope| {
        let serving = [("carl", 0), ("dora", 1)];
        let there = &there;
        let serving =
            serving.map(|(name, queue)| scope.spawn(move || there.enter(|| serve(name, queue, stop)).unwrap()));
        let asking = [scope.spawn(|| here.enter(anna).unwrap()), scope.spawn(|| here.enter(bert).unwrap())];
        let ended = asking.map(|thread| thread.join());
        stop.store(true, Relaxed);
        ended.into_iter().chain(serving.map(|thread| thread.join())).for_each(|ended| ended.unwrap());
    });
    assert!([near, far].iter().all(|end| end.loses_xdp().unwrap()), "the last node takes the program off");
}
