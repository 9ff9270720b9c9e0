//! Two nodes on two threads, each at its own pace.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::common::{LONG, Side, plain};
use am_api::{HandlerId, Node, NotOpen, Request, ReturnReason};
use am_transport::loopback::{self, Plug};

const ECHO: HandlerId = HandlerId(0);
const ECHOED: HandlerId = HandlerId(0);

/// What a side has seen.
#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    replies: u64,
    sum: u64,
    wrong: u64,
}

fn open(name: &str, plug: Plug) -> Side<Seen> {
    let mut side = Side::<Seen>::open(plain(name), Box::new(plug.open().expect("memory")));
    side.endpoint.on_request(ECHO, |seen, Request { message: request, token }| {
        seen.requests += 1;
        token.reply(ECHOED, request.words(), request.payload()).expect("a reply");
    });
    side.endpoint.on_reply(ECHOED, |seen, reply| {
        seen.replies += 1;
        seen.sum += reply.word(0);
        seen.wrong += u64::from(reply.payload() != reply.word(0).to_be_bytes());
    });
    side
}

fn two_threads<A: Send, B: Send>(left: impl FnOnce(Plug) -> A + Send, right: impl FnOnce(Plug) -> B + Send) -> (A, B) {
    let [for_left, for_right] = loopback::pair();
    thread::scope(|scope| {
        let right = scope.spawn(|| right(for_right));
        let left = left(for_left);
        (left, right.join().expect("the other thread"))
    })
}

/// Send this many requests, wait for all replies, and serve until the other side has its replies, too.
fn talk(name: &str, peer: &str, plug: Plug, count: u64, done: &AtomicU64) -> Seen {
    let mut side = open(name, plug);
    let to = side.endpoint.connect(peer, "main").unwrap();
    side.endpoint.wait_open(&mut side.state, to, LONG).unwrap();
    for number in 0..count {
        let sent = side.endpoint.request(&mut side.state, to, ECHO, &[number], &number.to_be_bytes());
        sent.expect("a request");
    }
    assert!(side.endpoint.wait_until(&mut side.state, 4 * LONG, |seen| seen.replies == count), "{:?}", side.state);
    done.fetch_add(1, SeqCst);
    side.endpoint.wait_until(&mut side.state, LONG, |_| done.load(SeqCst) == 2);
    side.state
}

#[test]
fn many_messages_both_ways_at_once() {
    const EACH: u64 = 50_000;
    let done = AtomicU64::new(0);
    let (left, right) =
        two_threads(|plug| talk("alpha", "beta", plug, EACH, &done), |plug| talk("beta", "alpha", plug, EACH, &done));
    for seen in [left, right] {
        assert_eq!((seen.requests, seen.replies, seen.wrong), (EACH, EACH, 0));
        assert_eq!(seen.sum, EACH * (EACH - 1) / 2);
    }
}

#[test]
fn one_at_a_time_there_and_back() {
    const TRIPS: u64 = 5_000;
    let stop = AtomicU64::new(0);
    two_threads(
        |plug| {
            let mut side = open("alpha", plug);
            let to = side.endpoint.connect("beta", "main").unwrap();
            side.endpoint.wait_open(&mut side.state, to, LONG).unwrap();
            for number in 1..=TRIPS {
                side.endpoint.try_request(to, ECHO, &[number], &number.to_be_bytes()).unwrap();
                assert!(side.endpoint.wait_until(&mut side.state, LONG, |seen| seen.replies == number));
            }
            stop.store(1, SeqCst);
        },
        |plug| {
            let mut side = open("beta", plug);
            side.endpoint.wait_until(&mut side.state, 4 * LONG, |_| stop.load(SeqCst) == 1);
            assert_eq!(side.state.requests, TRIPS);
        },
    );
}

#[test]
fn a_slow_receiver_gets_everything() {
    const COUNT: u64 = 3_000;
    let done = AtomicU64::new(0);
    let (sent, received) = two_threads(
        |plug| {
            let mut side = open("alpha", plug);
            let to = side.endpoint.connect("beta", "main").unwrap();
            for number in 0..COUNT {
                let sent = side.endpoint.request(&mut side.state, to, ECHO, &[number], &number.to_be_bytes());
                sent.expect("a request");
            }
            assert!(side.endpoint.wait_until(&mut side.state, 4 * LONG, |seen| seen.replies == COUNT));
            done.store(1, SeqCst);
            side.state
        },
        |plug| {
            let mut side = open("beta", plug);
            while side.state.requests < COUNT {
                side.poll();
                thread::sleep(Duration::from_millis(1));
            }
            // The last replies have to arrive.
            side.endpoint.wait_until(&mut side.state, LONG, |_| done.load(SeqCst) == 1);
            side.state
        },
    );
    assert_eq!((sent.replies, sent.wrong, received.requests), (COUNT, 0, COUNT));
}

#[test]
fn a_peer_that_dies_in_the_middle_is_noticed_and_its_messages_come_back() {
    const BEFORE: u64 = 1_000;
    two_threads(
        |plug| {
            let node = Node::open_on("alpha", Box::new(plug.open().unwrap())).unwrap();
            let mut endpoint = node.endpoint::<u64>("main").unwrap();
            endpoint.on_returned(|returned, message| *returned += u64::from(message.reason == ReturnReason::Closed));
            let to = endpoint.connect("beta", "main").unwrap();
            let mut returned = 0;
            endpoint.wait_open(&mut returned, to, LONG).unwrap();
            let mut sent = 0u64;
            while endpoint.request(&mut returned, to, ECHO, &[sent], &sent.to_be_bytes()).is_ok() {
                sent += 1;
            }
            assert_eq!(endpoint.ready(to), Err(NotOpen::Dead(ReturnReason::Closed)));
            while endpoint.wait(&mut returned, Duration::from_millis(10)) > 0 {}
            assert!(sent >= BEFORE, "{sent} sent");
            // What beta had not acknowledged is back, and no more than was under way.
            assert!(returned <= sent - BEFORE + am_api::WINDOW as u64, "{returned} of {sent} returned");
            assert_eq!(returned, node.counters().get("returned"));
        },
        |plug| {
            let mut side = open("beta", plug);
            assert!(side.endpoint.wait_until(&mut side.state, 4 * LONG, |seen| seen.requests >= BEFORE));
        },
    );
}

/// One that waits at its own endpoint would sleep on, although its poll has received what is for the other one.
#[test]
fn a_wait_ends_for_what_another_endpoint_gets() {
    let done = AtomicU64::new(0);
    let (sent, handled) = two_threads(
        |plug| {
            let mut side = open("alpha", plug);
            let to = side.endpoint.connect("beta", "other").unwrap();
            side.endpoint.wait_open(&mut side.state, to, LONG).unwrap();
            let sent = side.endpoint.request(&mut side.state, to, ECHO, &[7], b"");
            side.endpoint.wait_until(&mut side.state, LONG, |_| done.load(SeqCst) == 1);
            sent.is_ok()
        },
        |plug| {
            let mut side = open("beta", plug);
            let mut other = side.node.endpoint::<u64>("other").expect("an endpoint");
            let mut handled = 0;
            other.on_request(ECHO, |handled, Request { message, .. }| *handled = message.word(0));
            let end = std::time::Instant::now() + LONG;
            while handled == 0 && std::time::Instant::now() < end {
                assert_eq!(side.endpoint.wait_any(&mut side.state, 2 * LONG), 0, "nothing is for it");
                other.handle(&mut handled);
            }
            done.fetch_add(1, SeqCst);
            handled
        },
    );
    assert!(sent && handled == 7);
}
