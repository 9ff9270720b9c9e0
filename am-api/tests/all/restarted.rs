//! A server that is killed and started again at once, over transports without a broadcast that reaches everybody: its client
//! hears of the restart from the first frames that the new run cannot place, not after its patience.

use std::time::{Duration, Instant};

use crate::doomed::Receiver;
use crate::example::local;
use am_api::{Connection, Endpoint, HandlerId, Node, NotOpen, Request, RequestError, ReturnReason};

const WORK: HandlerId = HandlerId(2);
/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(100);
/// Several times what it takes.
const SOON: Duration = Duration::from_secs(1);
const SECONDS: Duration = Duration::from_secs(20);

fn open(name: &str, on: &str) -> Node {
    let transport = am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
    Node::builder(name).patience(PATIENCE).beacon(PATIENCE).keepalive(PATIENCE).open_on(transport).unwrap()
}

#[test]
#[ignore = "started by over_udp"]
fn receives() {
    let node = open("beta", &std::env::var(crate::doomed::PLACE).unwrap());
    let mut endpoint = node.endpoint::<()>("app").unwrap();
    endpoint.on_request(WORK, |(), Request { message: request, token }| {
        token.reply(WORK, request.words(), request.payload()).unwrap()
    });
    crate::doomed::is_open();
    loop {
        endpoint.wait(&mut (), Duration::from_millis(5));
    }
}

/// How often a request was answered.
type Answers = u64;

fn connect(endpoint: &mut Endpoint<Answers>, answers: &mut Answers) -> Connection {
    loop {
        let to = endpoint.connect("beta", "app").unwrap();
        match endpoint.wait_open(answers, to, SECONDS).map_err(|error| error.why) {
            Ok(()) => return to,
            Err(NotOpen::Dead(_)) => endpoint.close(to),
            Err(error) => panic!("beta: {error}"),
        }
    }
}

/// Send requests until this many replies have arrived, or the connection has ended. Returns the cause of the end.
fn ask(
    endpoint: &mut Endpoint<Answers>,
    answers: &mut Answers,
    to: Connection,
    most: u64,
    until: Instant,
) -> Option<ReturnReason> {
    while *answers < most {
        match endpoint.try_request(to, WORK, &[], b"") {
            Ok(()) | Err(RequestError::NoCredit | RequestError::NoFrame | RequestError::QueueFull) => {}
            Err(RequestError::Dead(reason)) => return Some(reason),
            Err(error) => panic!("{error}"),
        }
        endpoint.wait(answers, Duration::from_millis(1));
        assert!(Instant::now() < until, "nothing was heard of the restart");
    }
    None
}

fn noticed(serving: &str, asking: &str, is_busy: bool, as_what: &[ReturnReason]) {
    let node = open("alpha", asking);
    let mut endpoint = node.endpoint::<Answers>("app").unwrap();
    endpoint.on_reply(WORK, |answers, _| *answers += 1);
    let mut answers = 0;
    for _ in 0..3 {
        let first = Receiver::start("restarted::receives", serving);
        let to = connect(&mut endpoint, &mut answers);
        let most = answers + 200;
        ask(&mut endpoint, &mut answers, to, most, Instant::now() + SECONDS);
        if is_busy {
            while endpoint.try_request(to, WORK, &[], b"").is_ok() {}
            endpoint.flush();
        }
        drop(first);
        let second = Receiver::start("restarted::receives", serving);
        let since = Instant::now();
        let why = ask(&mut endpoint, &mut answers, to, u64::MAX, since + SOON);
        println!("{serving}: {why:?} after {:?}", since.elapsed());
        assert!(why.is_some_and(|why| as_what.contains(&why)), "{serving}");
        endpoint.close(to);
        drop(second);
    }
}

#[test]
fn over_udp() {
    for is_busy in [false, true] {
        noticed(
            &format!("udp:{}", local(1)),
            &format!("udp:{},peer={}", local(2), local(1)),
            is_busy,
            &[ReturnReason::Restarted],
        );
    }
}

#[test]
fn over_tcp() {
    for is_busy in [false, true] {
        noticed(
            &format!("tcp:{}", local(1)),
            &format!("tcp:{},peer={}", local(2), local(1)),
            is_busy,
            &[ReturnReason::Restarted],
        );
    }
}

#[test]
fn over_shared_memory() {
    for is_busy in [false, true] {
        let name = format!("shm:am-restarted-{}", std::process::id());
        // As a rule the kill is noticed first.
        noticed(&name, &name, is_busy, &[ReturnReason::Unreachable, ReturnReason::Restarted]);
    }
}
