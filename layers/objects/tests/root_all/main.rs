//! Objects of hosts on one bridge, over `xdp:`. Needs root.

#[allow(dead_code)] // these tests use a part
#[path = "../all/common.rs"]
mod common;
mod ledger;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use am_netns::{Bridge, BridgeOptions, Host};

use common::{Jobs, JobsReads, JobsWrites, LONG, founds, joins, node};

const MEMBERS: usize = 3;
const WRITES: u64 = 100;
const ALL: u64 = MEMBERS as u64 * WRITES;

/// Writes, and polls until all have all. Returns the queue.
fn member(number: usize, done: &AtomicUsize) -> Vec<u64> {
    let node = node(&format!("m{number}"), "xdp:am0");
    let mut space = if number == 0 { founds(&node) } else { joins(&node, "m0") };
    let jobs = match number {
        0 => space.create("jobs", &Jobs::default()).expect("alone it is a majority"),
        _ => {
            assert!(space.wait_until(LONG, |space| space.open::<Jobs>("jobs").is_some()), "{:?}", space.health());
            space.open("jobs").expect("it is there").expect("its type")
        }
    };
    for item in 0..WRITES {
        space.block_on(jobs.write().push(number as u64 * WRITES + item)).expect("it runs");
    }
    // An item is taken and another one put in its place, which says that it was taken.
    if number == 1 {
        space.block_on(jobs.write().take(ALL - 1)).expect("it comes");
        space.block_on(jobs.write().push(ALL)).expect("it runs");
    }
    let all = || jobs.read().all().now().expect("at once").expect("it is not poisoned");
    let has_all = |queue: &[u64]| queue.len() as u64 == ALL && queue.contains(&ALL);
    assert!(space.wait_until(LONG, |_| has_all(&all())), "{} items", all().len());
    done.fetch_add(1, SeqCst);
    while done.load(SeqCst) < MEMBERS {
        space.wait(Duration::from_millis(5));
    }
    all()
}

#[test]
fn all_hosts_see_one_order() {
    let hosts: Vec<Host> = (0..MEMBERS).map(|number| Host::new(&format!("h{number}")).expect("a host")).collect();
    let _bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).expect("a bridge");
    let done = AtomicUsize::new(0);
    let queues: Vec<Vec<u64>> = thread::scope(|scope| {
        let start = |(number, host): (usize, &'_ Host)| {
            let (host, done) = (host.clone(), &done);
            scope.spawn(move || host.enter(|| member(number, done)).expect("a host"))
        };
        let members: Vec<_> = hosts.iter().enumerate().map(start).collect();
        members.into_iter().map(|member| member.join().expect("no panic")).collect()
    });
    assert_eq!(queues[1], queues[0], "one order");
    assert_eq!(queues[2], queues[0], "one order");
}
