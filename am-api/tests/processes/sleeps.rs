//! A process that sleeps between the messages makes few system calls: one sleeps, one receives, one answers, and one finds nothing more.
//! Its calls are counted while it answers a hundred messages, with all that a node may have: a waker, and deadlines.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::parent_id;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_api::{Endpoint, Events, HandlerId, Idle, Request};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::common::{LONG, Side, plain};
use crate::doomed::{PLACE, Receiver};

const ECHO: HandlerId = HandlerId(1);
/// The first of these messages, and the one behind the last, are counted from and to. The connection is set up by then.
const COUNTED: [u64; 2] = [20, 120];

/// How the process waits.
const HOW: &str = "AM_TEST_WAIT";

#[test]
#[ignore = "started by blocked and the others"]
fn answers() {
    let transport = am_api::transports::open(&env::var(PLACE).unwrap()).unwrap();
    let mut side: Side<()> = Side::open(plain("beta").patience(LONG).idle(Idle::sleeping()), transport);
    let _waker = side.node.waker().unwrap();
    side.endpoint.on_request(ECHO, |(), Request { message: asked, token }| {
        if COUNTED.contains(&asked.word(0)) {
            // A call that shows in the trace.
            _ = parent_id();
        }
        token.reply(ECHO, asked.words(), asked.payload()).unwrap();
    });
    crate::doomed::is_open();
    let on_descriptor = env::var(HOW).unwrap() == "descriptor";
    loop {
        if on_descriptor {
            wait_on_descriptor(&mut side.endpoint);
        } else {
            side.endpoint.wait(&mut (), LONG);
        }
    }
}

fn wait_on_descriptor(endpoint: &mut Endpoint<()>) {
    if endpoint.poll_events().unwrap() != Events::empty() {
        endpoint.poll(&mut ());
        return;
    }
    let descriptor = endpoint.descriptor().unwrap();
    poll(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
}

/// The calls of the process while it answers the counted messages, by name, and how often it slept.
fn calls(here: &str, there: &dyn Fn(&str) -> String, how: &str) -> (BTreeMap<String, usize>, usize) {
    let mut alpha: Side<u64> = Side::open(plain("alpha").patience(LONG), am_api::transports::open(here).unwrap());
    alpha.endpoint.on_reply(ECHO, |answered, reply| *answered = reply.word(0));
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace);
    let place = there(&alpha.node.local_address());
    let beta = Receiver::open_under(strace, "sleeps::answers", &[(PLACE, &place), (HOW, how)]);
    let to = alpha.endpoint.connect("beta", "main").unwrap();
    alpha.endpoint.wait_open(&mut alpha.state, to, LONG).unwrap();
    for number in 1..=COUNTED[1] {
        alpha.endpoint.try_request(to, ECHO, &[number], b"").unwrap();
        assert!(alpha.endpoint.wait_until(&mut alpha.state, LONG, |answered| *answered == number), "{number}");
        // It sleeps by then, in general.
        sleep(Duration::from_millis(2));
    }
    let begin = Instant::now();
    let text = loop {
        let text = fs::read_to_string(&trace).unwrap();
        if text.matches("getppid(").count() == 2 {
            break text;
        }
        assert!(begin.elapsed() < LONG, "the process made no mark");
        sleep(Duration::from_millis(10));
    };
    drop(beta);
    let counted = text.split("getppid(").nth(1).unwrap();
    let (mut all, mut sleeps) = (BTreeMap::new(), 0);
    // `PID name(arguments) = result`; the rest of an interrupted call has no name.
    for line in counted.lines().skip(1) {
        let call = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
        let Some((name, arguments)) = call.split_once('(').filter(|(name, _)| !name.starts_with(['<', '-', '+']))
        else {
            continue;
        };
        sleeps += usize::from(name.ends_with("poll") && !arguments.contains("tv_nsec=0}"));
        *all.entry(name.to_owned()).or_default() += 1;
    }
    (all, sleeps)
}

fn few(here: &str, there: &dyn Fn(&str) -> String, how: &str, most: usize) {
    let (all, sleeps) = calls(here, there, how);
    // These look whether others live and files are the same, by the time that has passed.
    let by_time = ["fcntl", "statx", "newfstatat", "fstat", "futex"];
    let count: usize = all.iter().filter(|(name, _)| !by_time.contains(&&***name)).map(|(_, count)| count).sum();
    let messages = (COUNTED[1] - COUNTED[0]) as usize;
    assert!(
        count <= most * sleeps.max(messages) + 20,
        "{count} calls for {messages} messages, {sleeps} sleeps: {all:?}"
    );
    assert!(!all.contains_key("epoll_ctl"), "{all:?}");
}

fn introduced(place: &str) -> String {
    let (kind, at) = place.split_once(':').unwrap();
    format!("{kind}:127.0.0.1:0,peer={at}")
}

#[test]
fn blocked_over_udp() {
    few("udp:127.0.0.1:0", &introduced, "blocked", 4);
}

#[test]
fn blocked_over_tcp() {
    few("tcp:127.0.0.1:0", &introduced, "blocked", 6);
}

#[test]
fn blocked_over_shared_memory() {
    few(&format!("shm:am-sleeps-{}", std::process::id()), &str::to_owned, "blocked", 3);
}

#[test]
fn on_the_descriptor_over_udp() {
    few("udp:127.0.0.1:0", &introduced, "descriptor", 7);
}

#[test]
fn on_the_descriptor_over_shared_memory() {
    few(&format!("shm:am-sleeping-{}", std::process::id()), &str::to_owned, "descriptor", 5);
}
