//! A client that leaves while its server's handlers take their time and all queues between are full.

use std::process;
use std::thread;
use std::time::Duration;

use am_api::{ConnectionChange, Endpoint, Fate, HandlerId, Node, Request, ReturnReason};

use crate::common::LONG;

const WORK: HandlerId = HandlerId(0);
const REQUESTS: usize = 100;
const HANDLING: Duration = Duration::from_millis(3);

#[derive(Debug, Default)]
struct Heard {
    handled: usize,
    ended: Option<ReturnReason>,
    back: Vec<(ReturnReason, Fate)>,
}

/// The server's part, until its one connection has ended.
fn serve(node: &Node) -> Heard {
    let mut endpoint: Endpoint<Heard> = node.endpoint("main").unwrap();
    endpoint.on_request(WORK, |heard, Request { token, .. }| {
        heard.handled += 1;
        thread::sleep(HANDLING);
        _ = token.reply(WORK, &[], b"done");
    });
    endpoint.on_returned(|heard, back| heard.back.push((back.reason, back.fate)));
    endpoint.on_connection(|heard, event| {
        if let ConnectionChange::Ended(reason) = event.change {
            heard.ended = Some(reason);
        }
    });
    let mut heard = Heard::default();
    assert!(endpoint.wait_until(&mut heard, LONG, |heard| heard.ended.is_some()));
    // What was acknowledged before is still handled.
    endpoint.wait_until(&mut heard, LONG / 10, |heard| heard.handled + heard.back.len() >= REQUESTS);
    heard
}

fn leaves_a_slow_server(serving: &str, asking: impl FnOnce(&str) -> String) {
    let open = |name: &str, on: &str| Node::open(name, on).unwrap();
    let on = serving.to_owned();
    let (say, place) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
        let node = open("beta", &on);
        say.send(node.local_address()).unwrap();
        serve(&node)
    });
    let client = open("alpha", &asking(&place.recv().unwrap()));
    let mut endpoint: Endpoint<()> = client.endpoint("main").unwrap();
    endpoint.on_reply(WORK, |(), _| ());
    let to = endpoint.connect("beta", "main").unwrap();
    endpoint.wait_open(&mut (), to, LONG).unwrap();
    let bytes = vec![7; endpoint.frame_payload(to, 0).unwrap().min(15_000)];
    for _ in 0..REQUESTS {
        endpoint.request(&mut (), to, WORK, &[], &bytes).unwrap();
    }
    drop((endpoint, client));
    let heard = server.join().unwrap();
    assert_eq!(heard.ended, Some(ReturnReason::Closed), "{heard:?}");
    assert_eq!(heard.handled, REQUESTS);
    assert!(heard.back.iter().all(|back| *back == (ReturnReason::Closed, Fate::NotDelivered)), "{:?}", heard.back);
}

#[test]
fn over_shared_memory() {
    let name = format!("shm:am-slow-{}", process::id());
    leaves_a_slow_server(&name, |_| name.clone());
}

fn over_sockets(kind: &str) {
    let on = format!("{kind}:127.0.0.1:0");
    leaves_a_slow_server(&on, |place| format!("{on},peer={}", place.trim_start_matches(&format!("{kind}:"))));
}

#[test]
fn over_tcp() {
    over_sockets("tcp");
}

#[test]
fn over_udp() {
    over_sockets("udp");
}
