//! Two programs that wait in loops of their own, by `epoll` on their nodes' descriptors, level-triggered or edge-triggered.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Endpoint, Framing, HandlerId, Idle, Node, Request, Transport};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

const ECHO: HandlerId = HandlerId(0);
const PINGS: u64 = 200;
const LONG: Duration = Duration::from_secs(30);
/// How long an idle node is watched, and the most waits of it that the transport's frames end, or a deadline.
const IDLE: Duration = Duration::from_millis(500);
const MOST_WAITS: u64 = 50;

/// A node, and an epoll of the program that watches it.
struct Loop {
    node: Node,
    endpoint: Endpoint<u64>,
    last: u64,
    epoll: Epoll,
    /// Polls that find nothing before each wait.
    spins: u32,
    waits: u64,
}

impl Loop {
    fn new(name: &str, transport: Box<dyn Transport>, (how, spins): (EpollFlags, u32)) -> Loop {
        let node = Node::builder(name).framing(Framing::Plain).idle(Idle::sleeping()).open_on(transport);
        let node = node.unwrap_or_else(|error| panic!("{error}"));
        let mut endpoint = node.endpoint::<u64>("main").expect("an endpoint");
        endpoint.on_request(ECHO, |_, Request { message, token }| {
            token.reply(ECHO, message.words(), message.payload()).expect("a reply");
        });
        endpoint.on_reply(ECHO, |last, reply| *last = reply.word(0));
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        epoll.add(endpoint.descriptor().unwrap(), EpollEvent::new(EpollFlags::EPOLLIN | how, 0)).unwrap();
        Loop { node, endpoint, last: 0, epoll, spins, waits: 0 }
    }

    /// Poll and wait until this holds.
    fn until(&mut self, what: &str, mut done: impl FnMut(&Endpoint<u64>, u64) -> bool) {
        let start = Instant::now();
        while !done(&self.endpoint, self.last) {
            assert!(start.elapsed() < LONG, "never {what}\n{}", self.node.counters());
            let is_idle = (0..=self.spins).all(|_| self.endpoint.poll(&mut self.last) == 0);
            if is_idle && self.endpoint.prepare_wait().unwrap() {
                self.waits += 1;
                self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(5000u16)).unwrap();
            }
        }
    }
}

/// What the transport's descriptor does for a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// A frame makes it readable.
    Frames,
    /// The driver has none, so a deadline of 50 µs does.
    Deadline,
}

/// Each end opens its transport on the thread that uses it.
pub fn ping_pong(
    wakes: Wakes,
    alpha_on: impl Fn() -> Box<dyn Transport>,
    beta_on: impl Fn() -> Box<dyn Transport> + Sync,
) {
    // A node that spins does not watch its transport meanwhile.
    for how in [(EpollFlags::empty(), 0), (EpollFlags::EPOLLET, 0), (EpollFlags::EPOLLET, 1200)] {
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            let beta_on = &beta_on;
            let beta = scope.spawn(move || {
                let mut beta = Loop::new("beta", beta_on(), how);
                beta.until("told to end", |_, _| is_done.try_recv().is_ok());
            });
            let mut alpha = Loop::new("alpha", alpha_on(), how);
            // Beta may not be there yet.
            let to = alpha.endpoint.connect("beta", "main").expect("a connection asked for");
            alpha.until("connected", |endpoint, _| endpoint.is_open(to));
            let start = Instant::now();
            for number in 1..=PINGS {
                alpha.endpoint.try_request(to, ECHO, &[number], b"hello").expect("credit");
                alpha.until("answered", |_, last| last == number);
            }
            // Each missed wake-up would cost the node's longest wait.
            let trip = start.elapsed() / PINGS as u32;
            assert!(trip < Duration::from_millis(30), "{trip:?} a round trip, with {how:?}");
            let (before, start) = (alpha.waits, Instant::now());
            alpha.until("idle", |_, _| start.elapsed() > IDLE);
            let waits = alpha.waits - before;
            let is_idle = if wakes == Wakes::Frames { waits < MOST_WAITS } else { waits > MOST_WAITS };
            assert!(is_idle, "{waits} waits of an idle node in {IDLE:?}: {wakes:?}");
            done.send(()).expect("beta listens");
            beta.join().expect("no panic");
        });
    }
}
