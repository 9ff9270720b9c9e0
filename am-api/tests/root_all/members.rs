//! A partition between two hosts on a switch, and its end: each side sees the other as silent and then join again; messages
//! come back, and a new connection works.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use am_api::{Departure, Endpoint, HandlerId, MemberChange, Node, NotOpen, Request, ReturnReason};
use am_netns::{Bridge, BridgeOptions, Host};

use crate::wires::{ECHO, SECONDS};

#[derive(Default)]
struct Seen {
    changes: Vec<MemberChange>,
    back: u64,
    replies: u64,
}

/// A node that watches, echoes and counts.
fn open(name: &str) -> (Node, Endpoint<Seen>) {
    let node = Node::open(name, "xdp:am0").unwrap_or_else(|error| panic!("{error}"));
    let mut endpoint = node.endpoint::<Seen>("app").unwrap();
    // Framing and length change when the first connection opens.
    endpoint
        .on_members(|seen, event| seen.changes.extend(Some(event.change).filter(|it| *it != MemberChange::Changed)));
    endpoint.on_request(ECHO, |_, Request { message, token }| token.reply(ECHO, message.words(), b"").unwrap());
    endpoint.on_reply(ECHO, |seen, _| seen.replies += 1);
    endpoint.on_returned(|seen, _| seen.back += 1);
    (node, endpoint)
}

fn after(endpoint: &mut Endpoint<Seen>, seen: &mut Seen, changes: &[MemberChange]) {
    let is_so = endpoint.wait_until(seen, 3 * SECONDS, |seen| seen.changes.len() >= changes.len());
    assert!(is_so && seen.changes == changes, "{:?} instead of {changes:?}", seen.changes);
}

const JOINED: MemberChange = MemberChange::Joined;
const SILENT: MemberChange = MemberChange::Left(Departure::Silent);

#[test]
fn a_partition_is_seen_by_both_and_survived() {
    let hosts = ["members-a", "members-b"].map(|name| Host::new(name).unwrap());
    let [alpha, beta] = &hosts;
    let switch = Bridge::new(&[alpha, beta], "am0", &BridgeOptions::default()).unwrap();
    let (stop, beta_saw) = (AtomicBool::new(false), AtomicUsize::new(0));
    let other = || {
        let ((_node, mut endpoint), mut seen) = (open("beta"), Seen::default());
        while !stop.load(Relaxed) {
            endpoint.wait(&mut seen, Duration::from_millis(5));
            beta_saw.store(seen.changes.len(), Relaxed);
        }
        seen.changes
    };
    let one = || {
        let ((_node, mut endpoint), mut seen) = (open("alpha"), Seen::default());
        after(&mut endpoint, &mut seen, &[JOINED]);
        let to = endpoint.connect("beta", "app").unwrap();
        endpoint.wait_open(&mut seen, to, SECONDS).unwrap_or_else(|error| panic!("beta: {error}"));
        // Beta sees the silence only of a member.
        endpoint.wait_until(&mut seen, SECONDS, |_| beta_saw.load(Relaxed) >= 1);
        switch.ports()[1].set_down().unwrap();
        endpoint.try_request(to, HandlerId(1), &[1], b"").unwrap();
        after(&mut endpoint, &mut seen, &[JOINED, SILENT]);
        assert!(endpoint.wait_until(&mut seen, SECONDS, |seen| seen.back == 1), "the request is not back");
        assert_eq!(endpoint.ready(to), Err(NotOpen::Dead(ReturnReason::Unreachable)));
        // Beta's last beacon may have left earlier than alpha's: alpha then sees the silence first.
        endpoint.wait_until(&mut seen, 3 * SECONDS, |_| beta_saw.load(Relaxed) >= 2);
        switch.ports()[1].set_up().unwrap();
        after(&mut endpoint, &mut seen, &[JOINED, SILENT, JOINED]);
        let to = endpoint.connect("beta", "app").unwrap();
        endpoint.wait_open(&mut seen, to, SECONDS).unwrap_or_else(|error| panic!("beta: {error}"));
        endpoint.request(&mut seen, to, ECHO, &[2], b"").unwrap();
        assert!(endpoint.wait_until(&mut seen, SECONDS, |seen| seen.replies == 1), "no reply");
        // Beta may hear of alpha's return a little later.
        endpoint.wait_until(&mut seen, SECONDS, |_| beta_saw.load(Relaxed) >= 3);
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| beta.enter(other).unwrap());
        let result = alpha.enter(|| catch_unwind(AssertUnwindSafe(one))).unwrap();
        stop.store(true, Relaxed);
        let changes = other.join().unwrap();
        result.unwrap_or_else(|cause| resume_unwind(cause));
        // Alpha may say farewell before beta stops.
        assert!(changes.starts_with(&[JOINED, SILENT, JOINED]), "{changes:?}");
    });
}
