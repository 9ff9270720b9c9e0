//! Objects of several processes.

use std::collections::HashSet;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use am_objects::{CallError, Event, Latest, Shared, Space, Wire, object};

use crate::common::{Jobs, JobsReads, JobsWrites, LONG, founds, jobs, jobs_at, joins, node, result, until};

fn all(jobs: &Shared<Jobs>) -> Vec<u64> {
    jobs.read().all().now().expect("at once").expect("it is not poisoned")
}

fn all_see_one_order((mut spaces, jobs): (Vec<Space>, Vec<Shared<Jobs>>)) {
    let calls: Vec<_> = (0..300).map(|number| jobs[number % 3].write().push(number as u64)).collect();
    for call in calls {
        assert_eq!(result(&mut spaces, call), Ok(()));
    }
    until(&mut spaces, |_| jobs.iter().all(|jobs| all(jobs).len() == 300));
    assert!(jobs.iter().all(|other| all(other) == all(&jobs[0])), "one order");
    for first in 0..3 {
        let of_one = all(&jobs[0]).into_iter().filter(|number| number % 3 == first);
        assert!(of_one.eq((0..100).map(|number| 3 * number + first)), "a process's writes keep their order");
    }
    let popped = [0, 1, 2].map(|at| result(&mut spaces, jobs[at].write().pop()).expect("there are some"));
    until(&mut spaces, |_| jobs.iter().all(|jobs| all(jobs).len() == 297));
    assert!(popped.iter().all(|item| jobs.iter().all(|jobs| !all(jobs).contains(item))), "each once: {popped:?}");
}

#[test]
fn all_see_one_order_on_the_simulated_network() {
    all_see_one_order(jobs(3, "sim:3521,loss=0.01"));
}

#[test]
fn all_see_one_order_over_shared_memory() {
    all_see_one_order(jobs(3, &format!("shm:am-objects-order-{}", std::process::id())));
}

#[test]
fn all_see_one_order_over_udp() {
    let addresses = [(); 3].map(|()| format!("127.0.0.1:{}", am_netns::free_port(Ipv4Addr::LOCALHOST)));
    let on = |own: usize| {
        let peers = addresses.iter().enumerate().filter(|(at, _)| *at != own);
        let peers: String = peers.map(|(_, address)| format!(",peer={address}")).collect();
        node(&format!("m{own}"), &format!("udp:{}{peers}", addresses[own]))
    };
    all_see_one_order(jobs_at((0..3).map(on).collect(), LONG));
}

#[test]
fn a_process_that_joins_has_the_values_and_the_calls_that_wait() {
    let (mut spaces, jobs) = jobs(2, "sim:3522");
    let waits = jobs[1].write().take(99);
    result(&mut spaces, jobs[0].write().push(7)).expect("it runs");
    assert_eq!(result(&mut spaces, jobs[0].write().fail("on purpose")), Err(CallError::Poisoned));
    assert_eq!(result(&mut spaces, waits), Err(CallError::Poisoned));

    spaces.push(joins(&node("m2", "sim:3522"), "m0"));
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == 3));
    let third: Shared<Jobs> = spaces[2].open("jobs").expect("it is there").expect("its type");
    assert_eq!(third.read().len().now().map_err(|_| "it waits"), Ok(Err(CallError::Poisoned)));
}

#[test]
fn a_guard_that_waits_elsewhere_is_tried_at_a_process_that_joined() {
    let (mut spaces, jobs) = jobs(2, "sim:3523");
    let waits = jobs[1].write().take(99);
    until(&mut spaces, |spaces| spaces[1].waiting() == 1);
    result(&mut spaces, jobs[1].write().push(1)).expect("it runs, behind the call that waits");
    spaces.push(joins(&node("m2", "sim:3523"), "m0"));
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == 3));
    let third: Shared<Jobs> = spaces[2].open("jobs").expect("it is there").expect("its type");
    assert_eq!(all(&third), [1]);
    result(&mut spaces, third.write().push(99)).expect("it runs");
    assert_eq!(result(&mut spaces, waits), Ok(true));
    until(&mut spaces, |_| all(&third) == [1] && all(&jobs[0]) == [1]);
}

#[test]
fn a_crash_of_one_leaves_the_others_what_was_written() {
    let (mut spaces, jobs) = jobs(3, "sim:3524");
    for number in 0..10 {
        result(&mut spaces, jobs[0].write().push(number)).expect("it runs");
    }
    // The sequencer.
    drop(spaces.remove(0));
    assert_eq!(result(&mut spaces, jobs[1].write().pop()), Ok(0));
    assert_eq!(result(&mut spaces, jobs[2].write().pop()), Ok(1));
    until(&mut spaces, |_| all(&jobs[1]).len() == 8 && all(&jobs[2]).len() == 8);
    assert_eq!(jobs[1].read().popped().now().map_err(|_| "it waits"), Ok(Ok(2)));
}

/// A process whose only other one has crashed.
fn alone_in_a_space_of_two(on: &str) -> (Vec<Space>, Shared<Jobs>) {
    let (near, far) = (node("m0", on), node("m1", on));
    let open = |node| Space::builder(node).object::<Jobs>().patience(Duration::from_millis(300));
    let mut spaces = vec![open(&near).found("lab").expect("a name")];
    let first = spaces[0].create("jobs", &Jobs::default()).expect("alone it is a majority");
    spaces.push(open(&far).join("lab", &["m0"]).expect("a name"));
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == 2));
    drop(spaces.pop());
    until(&mut spaces, |spaces| spaces[0].events().contains(&Event::NotPrimary));
    (spaces, first)
}

#[test]
fn without_a_majority_a_write_is_unknown_and_reads_go_on() {
    let (mut spaces, first) = alone_in_a_space_of_two("sim:3525");
    assert_eq!(result(&mut spaces, first.write().push(1)), Err(CallError::Unknown));
    assert!(all(&first).is_empty());
    assert!(!spaces[0].is_primary());
}

/// A write that is done at one process, and a read at another.
#[test]
fn a_latest_read_misses_no_write() {
    let (mut spaces, jobs) = jobs(3, "sim:3526,loss=0.01");
    let mut was_old = false;
    for number in 0..100 {
        let (writer, reader) = (number as usize % 3, (number as usize + 1) % 3);
        result(&mut spaces, jobs[writer].write().push(number)).expect("it runs");
        was_old |= !all(&jobs[reader]).contains(&number);
        let mut latest = pin!(jobs[reader].read_latest());
        let mut read = None;
        until(&mut spaces, |_| {
            read = match latest.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(reads) => Some(reads.expect("a majority answers").all().now().expect("at once")),
                Poll::Pending => None,
            };
            read.is_some()
        });
        assert!(read.expect("it is there").expect("a value").contains(&number));
    }
    assert!(was_old, "a read of the copy was never old: the test shows nothing");
}

#[test]
fn a_read_within_a_time_asks_only_if_it_has_not_asked_since() {
    let mut space = founds(&node("m0", "sim:3527"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let is_ready =
        |reads: Latest<_>| matches!(pin!(reads).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_));
    assert!(!is_ready(jobs.read_within(LONG)), "it has never asked");
    space.block_on(jobs.read_latest()).expect("alone it is a majority");
    assert!(is_ready(jobs.read_within(LONG)) && !is_ready(jobs.read_within(Duration::ZERO)));
    space.leave(LONG).expect("alone it may");
    assert!(is_ready(jobs.read_latest()), "the space has ended, and says so");
}

#[test]
fn a_latest_read_without_a_majority_has_not_run() {
    let (mut spaces, first) = alone_in_a_space_of_two("sim:3528");
    let caught_up = |spaces: &mut [Space]| {
        let mut latest = pin!(first.read_latest());
        let mut outcome = None;
        until(spaces, |_| {
            outcome = match latest.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(reads) => Some(reads.map(drop)),
                Poll::Pending => None,
            };
            outcome.is_some()
        });
        outcome
    };
    assert_eq!(caught_up(&mut spaces), Some(Err(CallError::NotRun)));
}

/// Which of its items is the first differs.
#[derive(Default, Wire)]
struct Bag {
    items: HashSet<u64>,
    first: u64,
}

#[object]
impl Bag {
    #[write]
    fn add(&mut self, item: u64) {
        self.items.insert(item);
    }

    #[write]
    fn choose(&mut self) {
        self.first = self.items.iter().next().copied().unwrap_or_default();
    }
}

#[test]
fn an_object_that_differs_is_named() {
    let nodes = ["m0", "m1"].map(|name| node(name, "sim:3529"));
    let open = |node| Space::builder(node).object::<Bag>();
    let mut spaces = vec![open(&nodes[0]).found("lab").expect("a name")];
    let bag = spaces[0].create("bag", &Bag::default()).expect("alone it is a majority");
    spaces.push(open(&nodes[1]).join("lab", &["m0"]).expect("a name"));
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == 2));
    for item in 0..2000 {
        result(&mut spaces, bag.write().add(item)).expect("it runs");
    }
    assert!(spaces.iter().all(|space| space.health().is_none()), "sets that are equal");
    for _ in 0..200 {
        result(&mut spaces, bag.write().choose()).expect("it runs");
    }
    // The sequencer says what is right, which on a busy machine may be the other one by now.
    until(&mut spaces, |spaces| {
        let differs = |at: usize, other| {
            let said = format!("`bag` is not the same here as at {other} after 2048");
            spaces[at].health().is_some_and(|trouble| trouble.contains(&said))
        };
        differs(0, "m1") || differs(1, "m0")
    });
}
