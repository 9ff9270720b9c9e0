//! Nodes over AF_XDP on hosts of this machine.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use am_api::{Connection, Endpoint, Framing, HandlerId, Node, Request};
use am_netns::Host;

/// The handler that answers.
pub const ECHO: HandlerId = HandlerId(1);
/// Longer than anything here takes.
pub const SECONDS: Duration = Duration::from_secs(10);

/// What the handlers of these tests count.
#[derive(Debug, Default)]
pub struct Seen {
    /// Requests that were handled.
    pub requests: u64,
    /// Replies that were handled.
    pub replies: u64,
    /// Messages that were not as they were sent.
    pub wrong: u64,
}

/// A node on the interface `am0` of the host that the calling thread is in,
/// with an endpoint "app" that echoes requests and counts replies.
pub fn node(name: &str, framing: Option<Framing>) -> (Node, Endpoint<Seen>) {
    let mut builder = Node::builder(name);
    if let Some(framing) = framing {
        builder = builder.framing(framing);
    }
    let node = builder.open("xdp:am0").unwrap_or_else(|error| panic!("{error}"));
    let mut endpoint = node.endpoint::<Seen>("app").unwrap();
    endpoint.on_request(ECHO, |seen, Request { message, token }| {
        seen.requests += 1;
        token.reply(ECHO, message.words(), message.payload()).unwrap();
    });
    endpoint.on_reply(ECHO, |seen, message| {
        seen.replies += 1;
        seen.wrong += u64::from(message.payload() != payload(message.word(0), message.payload().len()));
    });
    (node, endpoint)
}

/// Bytes that depend on the number of the message.
pub fn payload(number: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (number.wrapping_mul(31) + at * 7) as u8).collect()
}

/// Serve on a host until the test stops it. Returns the observations and the counters.
pub fn serve(host: &Host, name: &str, framing: Option<Framing>, stop: &AtomicBool) -> Seen {
    host.enter(|| {
        let (_node, mut endpoint) = node(name, framing);
        let mut seen = Seen::default();
        while !stop.load(Relaxed) {
            endpoint.wait(&mut seen, Duration::from_millis(5));
        }
        seen
    })
    .unwrap()
}

/// Run `work` on `here` against a node called "beta" that serves on `there`.
pub fn against<T: Send>(
    here: &Host,
    there: &Host,
    framing: Option<Framing>,
    work: impl FnOnce() -> T + Send,
) -> (T, Seen) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(there, "beta", framing, &stop));
        // Whatever becomes of the work, the other side has to stop.
        let result = here.enter(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))).unwrap();
        stop.store(true, Relaxed);
        let seen = serving.join().unwrap();
        (result.unwrap_or_else(|cause| std::panic::resume_unwind(cause)), seen)
    })
}

/// Connect to "app" of the node called "beta".
pub fn connect(endpoint: &mut Endpoint<Seen>, seen: &mut Seen) -> Connection {
    let to = endpoint.connect("beta", "app").unwrap();
    endpoint.wait_open(seen, to, SECONDS).unwrap_or_else(|error| panic!("beta: {error}"));
    to
}

/// Send `count` requests with payloads of `length` bytes and wait for all replies.
pub fn exchange(endpoint: &mut Endpoint<Seen>, seen: &mut Seen, to: Connection, count: u64, length: usize) {
    let goal = seen.replies + count;
    for number in 0..count {
        endpoint.request(seen, to, ECHO, &[number], &payload(number, length)).unwrap();
    }
    assert!(endpoint.wait_until(seen, 6 * SECONDS, |seen| seen.replies >= goal), "{seen:?}, wanted {goal} replies");
    assert_eq!(seen.wrong, 0);
}
