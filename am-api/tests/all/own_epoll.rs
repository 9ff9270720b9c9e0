//! Programs that wait in a loop of their own: `epoll` on the node's descriptor, told of states or of changes; and wakers.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{LONG, Side, plain};
use am_api::{HandlerId, Idle, Request};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

const ECHO: HandlerId = HandlerId(0);
const PINGS: u64 = 200;

/// A side, and an epoll of the program that watches its node.
struct Loop {
    side: Side<u64>,
    epoll: Epoll,
    waits: u64,
}

impl Loop {
    fn new(name: &str, on: &str, how: EpollFlags) -> Loop {
        let transport = am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
        let mut side = Side::<u64>::open(plain(name).idle(Idle::sleeping()), transport);
        side.endpoint.on_request(ECHO, |_, Request { message, token }| {
            token.reply(ECHO, message.words(), message.payload()).expect("a reply");
        });
        side.endpoint.on_reply(ECHO, |last, reply| *last = reply.word(0));
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        epoll.add(side.endpoint.descriptor().unwrap(), EpollEvent::new(EpollFlags::EPOLLIN | how, 0)).unwrap();
        Loop { side, epoll, waits: 0 }
    }

    /// Poll and wait until this holds.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Side<u64>) -> bool) {
        let start = Instant::now();
        while !done(&mut self.side) {
            assert!(start.elapsed() < LONG, "never {what}\n{}", self.side.node.counters());
            if self.side.endpoint.poll(&mut self.side.state) == 0 && self.side.endpoint.prepare_wait().unwrap() {
                self.waits += 1;
                self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(5000u16)).unwrap();
            }
        }
    }
}

fn ping_pong(alpha_on: &str, beta_on: &str) {
    for how in [EpollFlags::empty(), EpollFlags::EPOLLET] {
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            let beta_on = beta_on.to_owned();
            let beta = scope.spawn(move || {
                let mut beta = Loop::new("beta", &beta_on, how);
                beta.until("told to end", |_| is_done.try_recv().is_ok());
            });
            let mut alpha = Loop::new("alpha", alpha_on, how);
            // Beta may not be there yet.
            let to = alpha.side.endpoint.connect("beta", "main").expect("a connection asked for");
            alpha.until("connected", |alpha| alpha.endpoint.is_open(to));
            let start = Instant::now();
            for number in 1..=PINGS {
                alpha.side.endpoint.try_request(to, ECHO, &[number], b"hello").expect("credit");
                alpha.until("answered", |alpha| alpha.state == number);
            }
            // Each missed wake-up would cost the node's longest wait.
            let trip = start.elapsed() / PINGS as u32;
            assert!(trip < Duration::from_millis(30), "{trip:?} a round trip, with {how:?} over {alpha_on}");
            let (before, start) = (alpha.waits, Instant::now());
            alpha.until("idle", |_| start.elapsed() > Duration::from_millis(500));
            assert!(alpha.waits - before < 50, "{} waits of an idle node in half a second", alpha.waits - before);
            done.send(()).expect("beta listens");
            beta.join().expect("no panic");
        });
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Names of both ends, which know each other's address.
pub(crate) fn sockets(scheme: &str) -> [String; 2] {
    let [a, b] = [free_port(), free_port()];
    [(a, b), (b, a)].map(|(own, peer)| format!("{scheme}:127.0.0.1:{own},peer=127.0.0.1:{peer}"))
}

#[test]
fn over_a_simulated_network() {
    ping_pong("sim:131", "sim:131");
}

#[test]
fn over_shared_memory() {
    let name = format!("shm:own-epoll-{}", std::process::id());
    ping_pong(&name, &name);
}

#[test]
fn over_udp() {
    let [alpha, beta] = sockets("udp");
    ping_pong(&alpha, &beta);
}

#[test]
fn over_tcp() {
    let [alpha, beta] = sockets("tcp");
    ping_pong(&alpha, &beta);
}

#[test]
fn over_several_at_once() {
    let [alpha, beta] = sockets("udp");
    let shm = format!("shm:own-epolls-{}", std::process::id());
    ping_pong(&format!("{shm}+{alpha}"), &format!("{shm}+{beta}"));
}

#[test]
fn a_waker_ends_a_wait() {
    let transport = am_api::transports::open("sim:132").unwrap();
    let mut alone = Side::<u64>::open(plain("alpha").idle(Idle::sleeping()), transport);
    let waker = alone.node.waker().unwrap();
    for pause in [0, 30] {
        let waker = waker.clone();
        let start = Instant::now();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(pause));
            waker.wake();
        });
        assert_eq!(alone.endpoint.wait(&mut alone.state, LONG), 0);
        assert!(start.elapsed() < LONG / 2);
        other.join().unwrap();
    }
    // It is used up.
    let start = Instant::now();
    alone.endpoint.wait(&mut alone.state, Duration::from_millis(20));
    assert!(start.elapsed() >= Duration::from_millis(20));
}
