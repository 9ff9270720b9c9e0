//! 1,000 outstanding calls allocate nothing, once as many were outstanding before. Everything happens on one thread, because the
//! counter counts by thread.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use am_api::{Framing, Node};
use am_threads::{Call, Driver, Handlers, Peer, Reconnect, SharedEndpoint, share};
use am_transport::loopback;

use crate::common::{LONG, SQUARE};

const CALLS: usize = 1000;

struct World {
    client: SharedEndpoint,
    server: SharedEndpoint,
    drivers: [Driver; 2],
    _nodes: [Node; 2],
    to: Peer,
    calls: Vec<Call>,
}

impl World {
    fn new() -> World {
        let [left, right] = loopback::pair().map(|plug| Box::new(plug.open().expect("memory")));
        let open = |name, transport, handlers| {
            let node = Node::builder(name).framing(Framing::Plain).open_on(transport).expect("a node");
            let (driver, endpoint) = share(&node, "main", handlers).expect("an endpoint");
            (node, driver, endpoint)
        };
        let (alpha, calls, client) = open("alpha", left, Handlers::new());
        let (beta, squares, server) = open(
            "beta",
            right,
            Handlers::new().on_request(SQUARE, |request| {
                let (id, number) = (request.message.word(0), request.message.word(1));
                request.token.reply(SQUARE, &[id, number * number], &request.message).expect("a reply");
            }),
        );
        let to = client.connect("beta", "main", Reconnect::Never).expect("names");
        let drivers = [calls, squares];
        World { client, server, drivers, _nodes: [alpha, beta], to, calls: Vec::with_capacity(CALLS) }
    }

    /// Post all, then wait for all.
    fn round(&mut self) {
        let payload = [7; 100];
        for number in 0..CALLS {
            self.calls.push(self.client.call(self.to, SQUARE, &[number as u64], &payload, LONG));
        }
        let mut cx = Context::from_waker(Waker::noop());
        let start = Instant::now();
        for (number, call) in self.calls.drain(..).enumerate() {
            let mut call = pin!(call);
            let answer = loop {
                if let Poll::Ready(outcome) = call.as_mut().poll(&mut cx) {
                    break outcome.expect("an answer");
                }
                self.drivers.iter_mut().for_each(|driver| _ = driver.poll());
                self.server.poll();
                assert!(start.elapsed() < LONG);
            };
            assert_eq!((answer.word(0), &answer[..]), ((number * number) as u64, &payload[..]));
        }
    }
}

#[test]
fn a_thousand_outstanding_calls_allocate_nothing() {
    let mut world = World::new();
    (0..20).for_each(|_| world.round());
    let counted = allocation_counter::measure(|| (0..20).for_each(|_| world.round()));
    assert_eq!(counted.count_total, 0);
}
