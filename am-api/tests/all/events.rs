//! Events: each ends a wait that is for it, and no other; the blocking call, the descriptor and the async poll say the same.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::daemon::Serving;
use crate::common::{LONG, Side, connect, connected, nodes, plain, until};
use crate::own_epoll::sockets;
use am_api::{Endpoint, Events, HandlerId, Idle, NotOpen, Request, RequestError, ReturnReason};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use tokio::io::Interest;
use tokio::net::UnixStream;

const TELL: HandlerId = HandlerId(0);
const SOON: Duration = Duration::from_millis(20);

/// Advance both, and run only the handlers of the peer. Returns alpha's first events.
fn first_events(alpha: &mut Side<u64>, beta: &mut Side<u64>) -> Events {
    let start = Instant::now();
    loop {
        let events = alpha.endpoint.poll_events().unwrap();
        if !events.is_empty() || start.elapsed() > LONG {
            return events;
        }
        beta.poll();
    }
}

#[test]
fn a_message_is_said_until_its_handler_has_run() {
    let (mut alpha, mut beta, to) = connected::<u64, u64>();
    beta.endpoint.on_request(TELL, |told, _| *told += 1);
    assert_eq!(beta.endpoint.wait_events(SOON), Events::empty());
    alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
    alpha.poll();
    for _ in 0..3 {
        assert_eq!(beta.endpoint.wait_events(LONG), Events::MESSAGES);
        assert_eq!(beta.endpoint.poll_events().unwrap(), Events::MESSAGES);
    }
    assert_eq!(beta.state, 0, "a wait for events runs no handler");
    assert_eq!(beta.poll(), 1);
    assert_eq!((beta.state, beta.endpoint.wait_events(SOON)), (1, Events::empty()));
}

#[test]
fn a_connection_that_refused_says_once_that_it_can_send() {
    let (mut alpha, mut beta) = nodes::<u64, u64>(plain("alpha"), plain("beta").window(4));
    beta.endpoint.on_request(TELL, |told, _| *told += 1);
    let to = connect(&mut alpha, &mut beta);
    alpha.endpoint.set_event_mask(Events::CAN_SEND);
    let fill = |alpha: &Side<u64>| {
        while alpha.endpoint.try_request(to, TELL, &[], b"").is_ok() {}
        alpha.endpoint.flush();
    };
    for _ in 0..3 {
        fill(&alpha);
        assert_eq!(alpha.endpoint.try_request(to, TELL, &[], b""), Err(RequestError::NoCredit));
        assert_eq!(alpha.endpoint.wait_events(SOON), Events::empty(), "beta has not handled them");
        assert_eq!(first_events(&mut alpha, &mut beta), Events::CAN_SEND);
        assert_eq!(alpha.endpoint.poll_events().unwrap(), Events::empty(), "once");
        alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
    }
    fill(&alpha);
    // A connection that has ended gives the next attempt another error.
    drop(beta);
    assert_eq!(alpha.endpoint.wait_events(LONG), Events::CAN_SEND);
    assert_eq!(alpha.endpoint.try_request(to, TELL, &[], b""), Err(RequestError::Dead(ReturnReason::Closed)));
}

#[test]
fn a_message_that_found_no_memory_is_said_when_there_is_some() {
    let (mut alpha, mut beta) = nodes::<u64, u64>(plain("alpha").message_memory(0).max_message(300_000), plain("beta"));
    beta.endpoint.on_request(TELL, |told, _| *told += 1);
    let to = connect(&mut alpha, &mut beta);
    // Each connection may have a long request on its way.
    let other = alpha.endpoint.connect("beta", "main").expect("a connection asked for");
    until(&mut alpha, &mut beta, "open", |alpha, _| alpha.endpoint.is_open(other));
    alpha.endpoint.set_event_mask(Events::CAN_SEND);
    let page = vec![1; 300_000];
    alpha.endpoint.try_request(to, TELL, &[], &page).unwrap();
    assert_eq!(alpha.endpoint.try_request(other, TELL, &[], &page), Err(RequestError::QueueFull));
    assert_eq!(alpha.endpoint.wait_events(SOON), Events::empty(), "beta has not handled it");
    assert_eq!(first_events(&mut alpha, &mut beta), Events::CAN_SEND);
    alpha.endpoint.try_request(other, TELL, &[], &page).expect("memory");
    until(&mut alpha, &mut beta, "handled", |_, beta| beta.state == 2);
}

#[test]
fn what_a_prepared_message_was_refused_for_passes_too() {
    let (mut alpha, mut beta) = nodes::<u64, u64>(plain("alpha"), plain("beta").window(4));
    beta.endpoint.on_request(TELL, |told, _| *told += 1);
    let to = connect(&mut alpha, &mut beta);
    alpha.endpoint.set_event_mask(Events::CAN_SEND);
    let prepared = alpha.endpoint.prepare(to, TELL, &[], 0, 8).expect("a frame");
    while alpha.endpoint.try_request(to, TELL, &[], b"").is_ok() {}
    assert_eq!(first_events(&mut alpha, &mut beta), Events::CAN_SEND);
    while alpha.endpoint.try_request(to, TELL, &[], b"").is_ok() {}
    assert_eq!(first_events(&mut alpha, &mut beta), Events::CAN_SEND);
    while alpha.endpoint.credit(to) > 0 {
        alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
    }
    let (why, prepared) = prepared.commit(0).expect_err("no credit");
    assert_eq!(why, RequestError::NoCredit);
    assert_eq!(first_events(&mut alpha, &mut beta), Events::CAN_SEND);
    prepared.commit(0).expect("credit");
}

#[test]
fn connections_and_returned_messages_are_events() {
    let (mut alpha, mut beta) = nodes::<u64, u64>(plain("alpha"), plain("beta"));
    alpha.endpoint.set_event_mask(Events::CONNECTION);
    let to = alpha.endpoint.connect("beta", "main").expect("a connection asked for");
    assert_eq!(first_events(&mut alpha, &mut beta), Events::CONNECTION);
    assert!(alpha.endpoint.is_open(to));
    alpha.poll();
    let wrong = alpha.endpoint.connect_with_tag("beta", "main", 7).expect("a connection asked for");
    assert_eq!(first_events(&mut alpha, &mut beta), Events::CONNECTION);
    assert!(matches!(alpha.endpoint.ready(wrong), Err(NotOpen::Refused(_))));
    alpha.poll();

    alpha.endpoint.set_event_mask(Events::RETURNED);
    alpha.endpoint.on_returned(|back, _| *back += 1);
    alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
    drop(beta);
    assert_eq!(alpha.endpoint.wait_events(LONG), Events::RETURNED);
    alpha.poll();
    assert_eq!((alpha.state, alpha.endpoint.wait_events(SOON)), (1, Events::empty()));
    alpha.endpoint.set_event_mask(Events::all());
    assert_eq!(alpha.endpoint.wait_events(SOON), Events::empty());
}

#[test]
fn a_wait_ends_neither_for_what_is_masked_nor_for_another_endpoint() {
    let (mut alpha, mut beta, to) = connected::<u64, u64>();
    let mut other = beta.node.endpoint::<u64>("other").expect("an endpoint");
    [&mut beta.endpoint, &mut other].into_iter().for_each(|endpoint| endpoint.on_request(TELL, |told, _| *told += 1));
    let second = alpha.endpoint.connect("beta", "other").expect("a connection asked for");
    until(&mut alpha, &mut beta, "connected", |alpha, _| alpha.endpoint.is_open(second));
    alpha.endpoint.try_request(second, TELL, &[], b"").expect("credit");
    alpha.endpoint.flush();
    assert_eq!(beta.endpoint.wait_events(SOON), Events::empty());
    assert_eq!(other.wait_events(SOON), Events::MESSAGES);

    beta.endpoint.set_event_mask(Events::RETURNED);
    assert_eq!(beta.endpoint.event_mask(), Events::RETURNED);
    alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
    alpha.endpoint.flush();
    assert_eq!(beta.endpoint.wait_events(SOON), Events::empty());
    assert_eq!(beta.endpoint.poll_events().unwrap(), Events::empty());
    beta.endpoint.set_event_mask(Events::default());
    assert_eq!(beta.endpoint.poll_events().unwrap(), Events::MESSAGES);
}

#[test]
fn a_waker_is_an_event_whatever_the_mask() {
    let (mut alpha, _beta) = nodes::<u64, u64>(plain("alpha").idle(Idle::spinning()), plain("beta"));
    alpha.endpoint.set_event_mask(Events::empty());
    let waker = alpha.node.waker().unwrap();
    waker.wake();
    assert_eq!(alpha.endpoint.wait_events(LONG), Events::WOKEN);
    waker.wake();
    waker.wake();
    assert_eq!(alpha.endpoint.poll_events().unwrap(), Events::WOKEN);
    assert_eq!(alpha.endpoint.poll_events().unwrap(), Events::empty());
    // Before the descriptor is worth waiting on, the program looks at what the other thread left.
    while !alpha.endpoint.prepare_wait().unwrap() {
        alpha.poll();
    }
    waker.wake();
    assert!(!alpha.endpoint.prepare_wait().unwrap());
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(SOON);
            waker.wake();
        });
        assert_eq!(alpha.endpoint.wait_events(LONG), Events::WOKEN);
    });
    assert!(start.elapsed() < LONG / 2);
}

#[test]
fn the_deadline_of_a_call_is_an_event_and_the_nodes_next_deadline() {
    let (mut alpha, mut beta, to) = connected::<u64, u64>();
    alpha.endpoint.on_outcome(TELL, |outcomes, _| *outcomes += 1);
    alpha.endpoint.try_call(to, TELL, &[], b"", SOON).expect("credit");
    assert!(alpha.endpoint.next_deadline() <= SOON);
    beta.poll();
    assert_eq!(alpha.endpoint.wait_events(LONG), Events::MESSAGES);
    alpha.poll();
    assert_eq!(alpha.state, 1);
}

#[test]
fn without_a_mask_a_connection_that_opens_ends_a_wait() {
    let (mut alpha, mut beta) = nodes::<u64, u64>(plain("alpha"), plain("beta"));
    assert_eq!(alpha.endpoint.event_mask(), Events::default());
    alpha.endpoint.connect("beta", "main").expect("a connection asked for");
    assert_eq!(first_events(&mut alpha, &mut beta), Events::CONNECTION);
    assert_eq!(beta.endpoint.wait_events(SOON), Events::empty(), "it was accepted before beta waited");
}

/// The ways to wait.
#[derive(Clone, Copy, Debug)]
enum Way {
    Blocking,
    Level,
    Edge,
    Tokio,
}

/// Wait for an event by one of the ways.
struct Waits {
    way: Way,
    epoll: Option<Epoll>,
    runtime: tokio::runtime::Runtime,
}

impl Waits {
    fn new(way: Way, endpoint: &Endpoint<u64>) -> Waits {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let watch = |how| {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
            epoll.add(endpoint.descriptor().unwrap(), EpollEvent::new(EpollFlags::EPOLLIN | how, 0)).unwrap();
            epoll
        };
        let epoll = match way {
            Way::Level => Some(watch(EpollFlags::empty())),
            Way::Edge => Some(watch(EpollFlags::EPOLLET)),
            Way::Blocking | Way::Tokio => None,
        };
        Waits { way, epoll, runtime }
    }

    fn wait(&self, endpoint: &mut Endpoint<u64>) -> Events {
        match (self.way, &self.epoll) {
            (Way::Blocking, _) => endpoint.wait_events(LONG),
            (_, Some(epoll)) => loop {
                let events = endpoint.poll_events().unwrap();
                if !events.is_empty() {
                    return events;
                }
                let ready = epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(30_000u16)).unwrap();
                assert_eq!(ready, 1, "a wake-up was missed, {:?}", self.way);
            },
            _ => self.runtime.block_on(async {
                let stream = std::os::unix::net::UnixStream::from(
                    endpoint.descriptor().unwrap().as_fd().try_clone_to_owned().unwrap(),
                );
                stream.set_nonblocking(true).unwrap();
                let watched = UnixStream::from_std(stream).unwrap();
                let forget =
                    || _ = watched.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                let events =
                    poll_fn(|cx| endpoint.poll_ready(cx, |cx| watched.poll_read_ready(cx).map_ok(|()| forget())));
                tokio::time::timeout(LONG, events).await.expect("an event in time").unwrap()
            }),
        }
    }
}

const PINGS: u64 = 100;

/// Pings, each after the answer to the one before; both sides wait by this way.
fn ping_pong(way: Way, [alpha_on, beta_on]: &[String; 2]) {
    let open = |name: &str, on: &str| {
        let transport = am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
        Side::<u64>::open(plain(name).idle(Idle::sleeping()), transport)
    };
    let (stop, stopped) = channel::<am_api::NodeWaker>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut beta = open("beta", beta_on);
            beta.endpoint.on_request(TELL, |told, Request { message, token }| {
                *told += 1;
                token.reply(TELL, message.words(), b"").expect("a reply");
            });
            stop.send(beta.node.waker().unwrap()).unwrap();
            let waits = Waits::new(way, &beta.endpoint);
            while !waits.wait(&mut beta.endpoint).contains(Events::WOKEN) {
                beta.poll();
            }
            assert_eq!(beta.state, PINGS);
        });
        let mut alpha = open("alpha", alpha_on);
        alpha.endpoint.on_reply(TELL, |last, reply| *last = reply.word(0));
        alpha.endpoint.set_event_mask(Events::CONNECTION | Events::MESSAGES);
        let waits = Waits::new(way, &alpha.endpoint);
        let waker = stopped.recv().unwrap();
        // Beta may not have heard of alpha yet.
        let to = alpha.endpoint.connect("beta", "main").expect("a connection asked for");
        assert_eq!(waits.wait(&mut alpha.endpoint), Events::CONNECTION);
        alpha.poll();
        for number in 1..=PINGS {
            alpha.endpoint.try_request(to, TELL, &[number], b"").expect("credit");
            while alpha.state < number {
                assert_eq!(waits.wait(&mut alpha.endpoint), Events::MESSAGES, "{way:?}");
                alpha.poll();
            }
        }
        waker.wake();
    });
}

fn every_way(names: impl Fn() -> [String; 2]) {
    for way in [Way::Blocking, Way::Level, Way::Edge, Way::Tokio] {
        ping_pong(way, &names());
    }
}

#[test]
fn every_way_over_a_simulated_network() {
    every_way(|| [(); 2].map(|()| "sim:141".to_owned()));
}

#[test]
fn every_way_over_shared_memory() {
    every_way(|| [(); 2].map(|()| format!("shm:events-{}", std::process::id())));
}

#[test]
fn every_way_over_udp() {
    every_way(|| sockets("udp"));
}

#[test]
fn every_way_over_tcp() {
    every_way(|| sockets("tcp"));
}

#[test]
fn every_way_over_a_daemon() {
    let daemon = Serving::start();
    every_way(|| [(); 2].map(|()| daemon.transport()));
}

#[test]
fn every_way_over_several_at_once() {
    let shm = format!("shm:events-both-{}", std::process::id());
    every_way(|| sockets("udp").map(|udp| format!("{shm}+{udp}")));
}

/// A kept message that is dropped on another thread: its credit returns though the node sleeps.
#[test]
fn a_kept_message_that_is_dropped_elsewhere_wakes_the_node() {
    let (mut alpha, mut beta) = nodes::<u64, u64>(plain("alpha"), plain("beta").window(1).idle(Idle::sleeping()));
    let (keeps, kept) = channel();
    beta.endpoint.on_request(TELL, move |_, request| keeps.send(request.message.keep()).unwrap());
    let to = connect(&mut alpha, &mut beta);
    alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
    until(&mut alpha, &mut beta, "nothing left to do", |alpha, beta| {
        alpha.endpoint.is_accepted(to) && beta.endpoint.prepare_wait().unwrap()
    });
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
    let descriptor = beta.endpoint.descriptor().unwrap();
    epoll.add(descriptor.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0)).unwrap();
    let message = kept.try_recv().expect("it was kept");
    thread::spawn(move || drop(message)).join().unwrap();
    assert_eq!(epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).unwrap(), 1);
    assert_eq!(alpha.endpoint.credit(to), 0);
    until(&mut alpha, &mut beta, "credit", |alpha, _| alpha.endpoint.credit(to) == 1);
}
