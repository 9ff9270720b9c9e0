//! Nodes on threads of their own that sleep whenever they can, over a simulated network that loses,
//! doubles, reorders and takes its time: each message is answered, and nobody waits for one who sleeps.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::common::{LONG, Side, plain};
use am_api::{HandlerId, Idle, Request};

const ECHO: HandlerId = HandlerId(0);
const ECHOED: HandlerId = HandlerId(0);
const PINGS: u64 = 300;

fn side(name: &str, on: &str) -> Side<u64> {
    let transport = am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
    let mut side = Side::<u64>::open(plain(name).idle(Idle::sleeping()), transport);
    side.endpoint.on_request(ECHO, |seen, Request { message: request, token }| {
        *seen += 1;
        token.reply(ECHOED, request.words(), request.payload()).expect("a reply");
    });
    side.endpoint.on_reply(ECHOED, |last, reply| *last = reply.word(0));
    side
}

fn ping_pong(on: &'static str) {
    let (done, is_done) = channel::<()>();
    let beta = thread::spawn(move || {
        let mut beta = side("beta", on);
        while is_done.try_recv().is_err() {
            beta.endpoint.wait(&mut beta.state, Duration::from_millis(100));
        }
        beta.state
    });
    let mut alpha = side("alpha", on);
    let to = alpha.endpoint.connect("beta", "main").expect("a connection asked for");
    alpha.endpoint.wait_open(&mut alpha.state, to, LONG).expect("beta is there");
    for number in 1..=PINGS {
        alpha.endpoint.try_request(to, ECHO, &[number], b"hello").expect("credit");
        let answered = alpha.endpoint.wait_until(&mut alpha.state, LONG, |last| *last == number);
        assert!(answered, "no answer to {number}\n{}", alpha.node.counters());
    }
    done.send(()).expect("beta listens");
    assert_eq!(beta.join().expect("no panic"), PINGS, "each was handled once");
}

#[test]
fn where_nothing_is_lost() {
    ping_pong("sim:101");
}

#[test]
fn where_much_is_lost() {
    ping_pong("sim:102,loss=0.05,duplicate=0.05,reorder=0.05,delay=200us");
}
