//! Nodes on threads of their own.

use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use am_api::{Framing, HandlerId, Idle, Node};
use am_threads::{Handlers, SharedEndpoint, share};

/// Longer than anything here takes when nothing is wrong.
pub(crate) const LONG: Duration = Duration::from_secs(30);
pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) const SQUARE: HandlerId = HandlerId(0);
pub(crate) const TELL: HandlerId = HandlerId(1);

/// A driver on a thread of its own, and its endpoint.
pub(crate) fn start(name: &'static str, on: &str, handlers: Handlers) -> (SharedEndpoint, JoinHandle<()>) {
    let (gives, endpoint) = channel();
    let on = on.to_owned();
    let thread = thread::spawn(move || {
        let node = Node::builder(name).framing(Framing::Plain).idle(Idle::sleeping());
        let node = node.open(&on).unwrap_or_else(|error| panic!("{error}"));
        let (mut driver, endpoint) = share(&node, "main", handlers).expect("an endpoint");
        gives.send(endpoint).expect("the test waits");
        driver.run();
    });
    (endpoint.recv().expect("an endpoint"), thread)
}

/// A thread that runs handlers until the driver, or the test, ends.
pub(crate) fn serve(endpoint: SharedEndpoint, stop: impl Fn() -> bool + Send + 'static) -> JoinHandle<usize> {
    thread::spawn(move || {
        let mut handled = 0;
        while !endpoint.is_closed() && !stop() {
            handled += endpoint.wait(10 * MS);
        }
        handled
    })
}

/// Squares the number after the call's id.
pub(crate) fn squares() -> Handlers {
    Handlers::new().on_request(SQUARE, |request| {
        let number = request.message.word(1);
        let payload = request.message.to_vec();
        request.token.answer(&[number * number], &payload).expect("an answer");
    })
}

pub(crate) fn until(what: &str, so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < LONG, "still not: {what}");
        thread::sleep(MS);
    }
}
