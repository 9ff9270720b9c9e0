//! A flag that says whether something has arrived.

use std::thread;
use std::time::Instant;

use am_api::{Idle, Node};
use am_rpc::{Arrivals, CallError, Helper, Rpc};

use crate::common::{LONG, MS, Shelf, StoreClient, StoreServer};

/// A program that serves a shelf itself, and a helper that calls it, over this transport.
fn both(test: &str) -> (Arrivals, Helper) {
    let on = format!("shm:am-rpc-arrivals-{test}-{}", std::process::id());
    let open = |name: &str, on: &str| {
        let node = Node::builder(name).idle(Idle::sleeping()).open(on).expect("a node");
        let rpc = Rpc::open(&node).expect("an endpoint");
        rpc.serve(StoreServer::new(Shelf::default())).expect("the only service");
        rpc
    };
    let arrivals = Arrivals::watch(open("alpha", &on)).expect("descriptors");
    let helper = Helper::start("calls-a-flag", move || Ok::<_, String>(open("beta", &on))).expect("a helper");
    (arrivals, helper)
}

fn until(what: &str, arrivals: &mut Arrivals, mut so: impl FnMut(&mut Arrivals) -> bool) {
    let start = Instant::now();
    while !so(arrivals) {
        assert!(start.elapsed() < LONG, "still not: {what}");
        thread::sleep(MS);
    }
}

/// Poll until the flag stays clear for a while: the nodes are quiet.
fn until_quiet(arrivals: &mut Arrivals) {
    let mut in_a_row = 0;
    until("quiet", arrivals, |arrivals| {
        in_a_row = if arrivals.are_waiting() { 0 } else { in_a_row + 1 };
        arrivals.poll();
        in_a_row == 10
    });
}

#[test]
fn the_flag_is_set_by_what_arrives_and_cleared_by_a_poll() {
    let (mut alpha, beta) = both("set");
    for number in 0..20 {
        until_quiet(&mut alpha);
        let call = beta.remote().run(move |local| {
            let store = StoreClient::new(&local.peer("alpha").expect("a name").within(LONG));
            async move { store.double(number).await }
        });
        // Nobody polls the node until the flag is set, and a poll without it does nothing.
        until("the flag", &mut alpha, |alpha| alpha.are_waiting());
        let calls = thread::spawn(move || call.wait());
        until("its answer", &mut alpha, |alpha| {
            alpha.poll();
            calls.is_finished()
        });
        assert_eq!(calls.join().expect("no panic"), Ok(Ok(2 * number)));
    }
    assert_eq!(beta.stop(LONG), Ok(0));
}

#[test]
fn a_program_waits_for_calls_between_polls() {
    let (mut alpha, beta) = both("waits");
    let store = StoreClient::new(&alpha.rpc().peer("beta").expect("a name").within(LONG));
    for number in 0..20 {
        assert_eq!(alpha.rpc().block_on(store.double(number)), Ok(2 * number));
        assert!(alpha.are_waiting(), "the wait has ended the watch");
        until_quiet(&mut alpha);
    }
    // The deadline of a call that runs sets the flag: there is no answer.
    let hurried = StoreClient::new(&alpha.rpc().peer("beta").expect("a name").within(50 * MS));
    let (gives, outcome) = std::sync::mpsc::channel();
    let call = hurried.wait_for("never");
    alpha.rpc().spawn(async move { gives.send(call.await).expect("the test waits") });
    until("a deadline", &mut alpha, |alpha| {
        alpha.poll();
        outcome.try_recv().is_ok_and(|outcome| outcome == Err(CallError::Deadline))
    });
    drop(beta);
}
