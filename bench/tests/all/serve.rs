//! A far side of `--serve` outlives malformed clients. No root.

use std::time::Duration;

use crate::common::{QUICK, json, run, start};
use am_api::{Connection, Endpoint, HandlerId, Node};
use nix::sys::signal::Signal;

const SERVER: &str = "udp:127.77.1.2:7000";
const SECONDS: Duration = Duration::from_secs(20);

/// The endpoints of the server: for plans, and for measurements.
const PLANS: &str = "am-bench-plans";
const VIA: &str = "am-bench";
/// A plan; data, notes and regions.
const PLAN: HandlerId = HandlerId(0);
const DATA: HandlerId = HandlerId(0);
const NOTE: HandlerId = HandlerId(1);
const REGION: HandlerId = HandlerId(2);
/// The control message with which the near side leaves.
const GIVE_UP: [u64; 4] = [10, 0, 0, 0];

/// A client that sends whatever it is told to.
struct Babbler {
    endpoint: Endpoint<Vec<String>>,
    answers: Vec<String>,
}

impl Babbler {
    fn new() -> Babbler {
        let transport = am_api::transports::open("udp:127.77.1.3:7000,peer=127.77.1.2:7000").unwrap();
        let mut endpoint: Endpoint<Vec<String>> = Node::open_on("babbler", transport).unwrap().endpoint("any").unwrap();
        endpoint.on_reply(PLAN, |answers, reply| answers.push(String::from_utf8_lossy(reply.payload()).into_owned()));
        Babbler { endpoint, answers: Vec::new() }
    }

    /// The server closes between two measurements, so wait until it is there again.
    fn connect(&mut self, endpoint: &str) -> Connection {
        for _ in 0..20 {
            let to = self.endpoint.connect("beta", endpoint).unwrap();
            if self.endpoint.wait_open(&mut self.answers, to, SECONDS).is_ok() {
                return to;
            }
            self.endpoint.close(to);
            self.endpoint.wait(&mut self.answers, SECONDS / 100);
        }
        panic!("no {endpoint} at beta")
    }

    fn say(&mut self, to: Connection, handler: HandlerId, words: &[u64], payload: &[u8]) {
        self.endpoint.try_request(to, handler, words, payload).unwrap();
        self.endpoint.wait(&mut self.answers, Duration::from_millis(1));
    }

    /// The server's answer to a plan, once it is not busy with the one before.
    fn ask(&mut self, plan: &str) -> String {
        for _ in 0..20 {
            let to = self.connect(PLANS);
            self.answers.clear();
            self.say(to, PLAN, &[], plan.as_bytes());
            self.endpoint.wait_until(&mut self.answers, SECONDS / 20, |answers| !answers.is_empty());
            self.endpoint.close(to);
            match self.answers.pop() {
                Some(answer) if !answer.contains("busy") => return answer,
                _ => {}
            }
        }
        panic!("no answer to {plan}")
    }
}

fn plan(drivers: &str, rounds: u64) -> String {
    format!(
        r#"{{"version":9,"near":{{"name":"babbler","address":[1,2,3,4,5,6],"ipv4":"0.0.0.0","ipv6":null,"core":99,"mtu":0}},"vias":[{drivers}],"rounds":{rounds}}}"#
    )
}

#[test]
fn clients_that_make_no_sense() {
    let far = start(&[&["--serve", "--on", SERVER, "--name", "beta"]]);
    let mut babbler = Babbler::new();
    for nonsense in ["", "\0\u{1b}[2J", "[]", "{\"version\":9}", &plan(r#""am","nothing""#, 1)] {
        let answer = babbler.ask(nonsense);
        assert!(answer.contains("cannot parse"), "{nonsense}: {answer}");
    }
    // These are accepted, but fail or have nothing to do.
    assert!(babbler.ask(&plan("", u64::MAX)).contains("names no driver"));
    for (drivers, rounds) in [(r#""cacheline""#, u64::MAX), (r#""hybrid""#, 1), (r#""raw""#, 0)] {
        let answer = babbler.ask(&plan(drivers, rounds));
        assert!(answer.starts_with(r#"{"Accepted""#), "{drivers}: {answer}");
    }
    assert!(babbler.ask(&plan(r#""am""#, 1)).starts_with(r#"{"Accepted""#));
    let to = babbler.connect(VIA);
    // Too many bytes for each kind of measurement; malformed and misplaced control messages.
    for bench in 0..=9u64 {
        babbler.say(to, NOTE, &[1 | bench << 8 | 1 << 32, u64::MAX, u64::MAX, u64::MAX], &[]);
    }
    for word in [0, 3, 4, 5, 6, 7, 9, 77, u64::MAX] {
        babbler.say(to, NOTE, &[word], &[7; 99]);
    }
    babbler.say(to, REGION, &[u64::MAX], &[]);
    babbler.say(to, DATA, &[], &[7; 1000]);
    // A measurement of transfers by a side that announces no region and sends other messages.
    babbler.say(to, NOTE, &[1 | 3 << 8 | 1 << 32, 1 << 20, 0, u64::MAX], &[]);
    babbler.say(to, DATA, &[1, 2, 3], &[7; 1000]);
    babbler.say(to, HandlerId(200), &[], &[]);
    babbler.say(to, NOTE, &GIVE_UP, &[]);
    drop(babbler);

    let on = "udp:127.77.1.1:7000,peer=127.77.1.2:7000";
    let near = ["latency", "--peer", "beta", "--driver", "am,raw", "--json", "--on", on];
    json(&run(&[&near, QUICK]));
    far.signal(Signal::SIGTERM);
    let (status, errors) = far.end();
    assert_eq!(status.code(), Some(143), "{errors}");
    assert!(errors.contains("left before the end") && !errors.contains("panicked"), "{errors}");
}
