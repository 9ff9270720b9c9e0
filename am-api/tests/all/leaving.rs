//! A server answers, leaves in order, and its next run starts, while the client does not run: the client gets each reply, and hears that
//! the server has closed.

use std::process::id;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::daemon::Serving;
use crate::common::{LONG, Side, plain};
use am_api::{ConnectionChange, HandlerId, Request, RequestError, ReturnReason};

const ASK: HandlerId = HandlerId(0);

#[derive(Default)]
struct Seen {
    handled: usize,
    replies: Vec<u64>,
    back: Vec<String>,
    ended: Option<ReturnReason>,
}

fn open(name: &str, on: &str) -> Side<Seen> {
    let transport = am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
    let mut side = Side::<Seen>::open(plain(name).patience(LONG), transport);
    side.endpoint.on_request(ASK, |seen, Request { message, token }| {
        seen.handled += 1;
        // Replies of many bytes, to which short requests lead.
        token.reply(ASK, message.words(), &vec![0; message.word(1) as usize]).unwrap();
    });
    side.endpoint.on_reply(ASK, |seen, reply| seen.replies.push(reply.word(0)));
    side.endpoint.on_returned(|seen, back| seen.back.push(format!("{back:?}")));
    side.endpoint.on_connection(|seen, event| {
        if let ConnectionChange::Ended(reason) = event.change {
            seen.ended = Some(reason);
        }
    });
    side
}

/// The client asks for `many` replies of `bytes` bytes. `away`: how long the client does not run before it reads them.
fn leaves(server: &str, client: &dyn Fn(&str) -> String, [many, bytes]: [u64; 2], away: Duration) {
    let mut alpha = open("server", server);
    let (here, there) = (alpha.node.local_address(), client(&alpha.node.local_address()));
    let far = thread::spawn(move || {
        let mut beta = open("client", &there);
        let to = beta.endpoint.connect("server", "main").unwrap();
        beta.endpoint.wait_open(&mut beta.state, to, LONG).unwrap_or_else(|error| panic!("{error}"));
        for number in 0..many {
            let begin = Instant::now();
            while let Err(why) = beta.endpoint.try_request(to, ASK, &[number, bytes], b"") {
                assert!(
                    matches!(why, RequestError::NoCredit | RequestError::QueueFull) && begin.elapsed() < LONG,
                    "{why}"
                );
                beta.poll();
            }
        }
        beta.endpoint.flush();
        thread::sleep(away);
        let begin = Instant::now();
        while beta.state.ended.is_none() {
            beta.endpoint.wait(&mut beta.state, Duration::from_millis(10));
            assert!(begin.elapsed() < LONG, "it never ends\n{}", beta.node.counters());
        }
        beta.poll();
        assert_eq!(beta.state.back[..], [""; 0], "after {} replies", beta.state.replies.len());
        assert_eq!(beta.state.replies, (0..many).collect::<Vec<_>>());
        assert_eq!(beta.state.ended, Some(ReturnReason::Closed));
    });
    while alpha.state.handled < many as usize && !far.is_finished() {
        alpha.endpoint.wait(&mut alpha.state, Duration::from_millis(10));
    }
    drop(alpha);
    let mut alpha = open("server", &here);
    while !far.is_finished() {
        alpha.endpoint.wait(&mut alpha.state, Duration::from_millis(10));
    }
    far.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Few messages, more than a turn handles, and more bytes than a queue has.
const AMOUNTS: [[u64; 2]; 3] = [[16, 0], [120, 0], [120, 4000]];

#[test]
fn over_shared_memory() {
    for (at, amount) in AMOUNTS.iter().enumerate() {
        let on = format!("shm:am-api-leaving-{}-{at}", id());
        leaves(&on, &str::to_owned, *amount, Duration::from_millis(600));
    }
}

/// The segment has no other number for the next run.
#[test]
fn over_shared_memory_of_two_members() {
    let on = format!("shm:am-api-leaving-{}-two,members=2", id());
    leaves(&on, &|_| on.clone(), AMOUNTS[1], Duration::from_millis(100));
}

#[test]
fn over_tcp() {
    for amount in AMOUNTS {
        let client = |server: &str| format!("tcp:127.0.0.1:0,peer={}", server.trim_start_matches("tcp:"));
        leaves("tcp:127.0.0.1:0", &client, amount, Duration::from_millis(600));
    }
}

#[test]
fn over_udp() {
    let client = |server: &str| format!("udp:127.0.0.1:0,peer={}", server.trim_start_matches("udp:"));
    leaves("udp:127.0.0.1:0", &client, AMOUNTS[0], Duration::from_millis(100));
}

#[test]
fn behind_a_daemon() {
    let daemon = Serving::start();
    for amount in &AMOUNTS[..2] {
        leaves(&daemon.transport(), &|_| daemon.transport(), *amount, Duration::from_millis(100));
    }
}
