//! What nodes over shared memory hear at once, however patient they are: that a peer's process was killed, which the system
//! knows; and that the file they share was removed.

use std::time::{Duration, Instant};

use crate::common::{LONG, Side, plain};
use crate::doomed::{PLACE, Receiver};
use am_api::{Connection, ConnectionChange, HandlerId, ReturnReason};

const TELL: HandlerId = HandlerId(0);
/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Seen {
    ended: Vec<(String, ReturnReason)>,
    back: u64,
}

fn open(name: &str, on: &str) -> Side<Seen> {
    let transport = am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
    let mut side = Side::<Seen>::open(plain(name).patience(HOUR).keepalive(HOUR), transport);
    side.endpoint.on_request(TELL, |_, _| ());
    side.endpoint.on_returned(|seen, _| seen.back += 1);
    side.endpoint.on_connection(|seen, event| {
        if let ConnectionChange::Ended(reason) = event.change {
            seen.ended.push((event.peer.node.to_string(), reason));
        }
    });
    side
}

#[test]
#[ignore = "started by those_who_wait_for_nothing_hear_it_too"]
fn receives() {
    let mut side = open("doomed", &std::env::var(PLACE).unwrap());
    crate::doomed::is_open();
    loop {
        side.endpoint.wait(&mut side.state, Duration::from_millis(5));
    }
}

/// Wait, asleep most of the time, until it is so.
fn until(side: &mut Side<Seen>, what: &str, so: impl Fn(&Side<Seen>) -> bool) {
    let start = Instant::now();
    while !so(side) {
        side.endpoint.wait(&mut side.state, Duration::from_millis(100));
        assert!(start.elapsed() < LONG, "still not: {what}\n{}", side.node.counters());
    }
}

fn connect(side: &mut Side<Seen>) -> Connection {
    let to = side.endpoint.connect("doomed", "main").unwrap();
    side.endpoint.wait_open(&mut side.state, to, LONG).unwrap_or_else(|error| panic!("{error}"));
    to
}

fn killed(on: &str) {
    let mut alpha = open("alpha", on);
    for round in 1..=3 {
        let mut doomed = Receiver::start("gone::receives", on);
        let [first, second] = [(); 2].map(|()| connect(&mut alpha));
        doomed.stop();
        alpha.endpoint.wait(&mut alpha.state, Duration::from_millis(200));
        assert!(alpha.endpoint.is_open(first), "it is only stopped");
        // On the other nothing is on its way.
        alpha.endpoint.try_request(second, TELL, &[], b"").unwrap();
        alpha.poll();
        doomed.kill();
        until(&mut alpha, "both are over, and the message is back", |alpha| {
            alpha.state.ended.len() == 2 * round && alpha.state.back == round as u64
        });
    }
    assert!(alpha.state.ended.iter().all(|ended| *ended == ("doomed".into(), ReturnReason::Unreachable)));
}

#[test]
fn those_who_wait_for_nothing_hear_it_too() {
    killed(&format!("shm:am-api-gone-{}", std::process::id()));
}

#[test]
fn also_where_it_is_one_of_several_ways() {
    killed(&format!("shm:am-api-gone-of-two-{}+udp:127.0.0.1:0", std::process::id()));
}

/// Also where another file has its name now: processes that start now would join that one.
#[test]
fn that_the_file_was_removed_or_replaced_is_trouble_on_both_sides() {
    for replaced in [false, true] {
        let name = format!("am-api-removed-{replaced}-{}", std::process::id());
        let [alpha, beta] = ["alpha", "beta"].map(|node| open(node, &format!("shm:{name}")));
        assert_eq!((alpha.node.health(), beta.node.health()), (Ok(()), Ok(())));
        let path = format!("/dev/shm/am-{name}.shm");
        if replaced {
            std::fs::copy(&path, format!("{path}.new")).unwrap();
            std::fs::rename(format!("{path}.new"), &path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        for side in [&alpha, &beta] {
            let begin = Instant::now();
            let problem = loop {
                match side.node.health() {
                    Err(problem) => break problem.to_string(),
                    // A member looks every 20 ms.
                    Ok(()) => assert!(begin.elapsed() < LONG, "it is not noticed"),
                }
            };
            assert!(problem.contains("removed or replaced") && problem.contains("start all"), "{problem}");
        }
        _ = std::fs::remove_file(&path);
    }
}
