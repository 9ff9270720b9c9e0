//! One process, two nodes, two threads: each on a queue of its own of one interface, at both ends of a cable. Each talks
//! to its peer while the other does, and goes on when the other closes. Needs root.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use am_api::{Endpoint, Handler, Node};
use hosts::{Host, VethOptions, veth};

const ECHO: Handler = Handler(1);
const LONG: Duration = Duration::from_secs(20);
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
    let transport = transports::open(&format!("xdp:am0,queue={queue}")).unwrap_or_else(|error| panic!("{error}"));
    let node = Node::open(name, transport).unwrap();
    let endpoint = node.endpoint("app").unwrap();
    (node, endpoint)
}

/// Answer until told to stop.
fn serve(host: &Host, name: &str, queue: u32, is_open: &Barrier, stop: &AtomicBool) {
    let work = || {
        let (_node, mut endpoint) = node(name, queue);
        endpoint.on_request(ECHO, |_, request, token| token.reply(ECHO, request.words(), request.payload()).unwrap());
        is_open.wait();
        while !stop.load(Relaxed) {
            endpoint.wait(&mut Seen::default(), Duration::from_millis(5));
        }
    };
    host.enter(work).unwrap();
}

/// Ask the peer, with `meanwhile` in the middle of it.
fn ask(host: &Host, (name, peer): (&'static str, &str), queue: u32, opened: &Barrier, meanwhile: impl Fn() + Send) {
    let work = || {
        let (node, mut endpoint) = node(name, queue);
        endpoint.on_reply(ECHO, move |seen: &mut Seen, reply| {
            seen.replies += 1;
            seen.wrong += u64::from(reply.payload() != payload(name, reply.word(0)));
        });
        opened.wait();
        let mut seen = Seen::default();
        let to = endpoint.connect(peer, "app").unwrap();
        endpoint.wait_open(&mut seen, to, LONG).unwrap_or_else(|error| panic!("{name}: {error}: {:?}", node.trouble()));
        for number in 0..MESSAGES {
            while let Err(error) = endpoint.request(to, ECHO, &[number], &payload(name, number)) {
                assert!(error.is_temporary(), "{name}: {error}");
                endpoint.poll(&mut seen);
            }
            if number == MESSAGES / 2 {
                meanwhile();
            }
        }
        let all = endpoint.wait_until(&mut seen, LONG, |seen| seen.replies == MESSAGES);
        assert!(all, "{name}: {} replies: {}", seen.replies, node.counters());
        assert_eq!(seen.wrong, 0);
        let counters = node.counters();
        let handed_over = counters.iter().any(|(name, count)| name == "broadcasts_handed_over" && count > 0);
        assert!(handed_over || meanwhile_is_over(&node), "{name}: {counters}");
    };
    host.enter(work).unwrap();
}

/// The other has closed: what was handed over is not counted apart any more.
fn meanwhile_is_over(node: &Node) -> bool {
    node.counters().iter().all(|(name, _)| name != "broadcasts_handed_over")
}

#[test]
fn two_nodes_of_a_process_talk_to_a_peer_each() {
    let (here, there) = (Host::new("near").unwrap(), Host::new("far").unwrap());
    let (near, far) = veth(&here, "am0", &there, "am0", &VethOptions { queues: 2, ..VethOptions::default() }).unwrap();
    let (stop, opened, are_open, closed) =
        (AtomicBool::new(false), Barrier::new(2), Barrier::new(3), Barrier::new(2));
    thread::scope(|scope| {
        let serving = [("carl", 0), ("dora", 1)]
            .map(|(name, queue)| scope.spawn({ let (there, are_open, stop) = (&there, &are_open, &stop); move || serve(there, name, queue, are_open, stop) }));
        are_open.wait();
        let first = scope.spawn(|| {
            ask(&here, ("anna", "carl"), 0, &opened, || ());
            closed.wait();
        });
        // The second is in the midst of its messages when the first closes.
        let second = scope.spawn(|| ask(&here, ("bert", "dora"), 1, &opened, || _ = closed.wait()));
        let ended = [first, second].map(|asking| asking.join());
        stop.store(true, Relaxed);
        ended.into_iter().chain(serving.map(|serving| serving.join())).for_each(|ended| ended.unwrap());
    });
    assert!([near, far].iter().all(|end| !end.has_xdp().unwrap()), "the last node's end takes the program off");
}
