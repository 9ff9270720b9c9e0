//! Writes that wait.

use std::time::Duration;

use am_objects::Shared;

use crate::common::{Desk, DeskWrites, Jobs, JobsReads, JobsWrites, founds, jobs_with, node, result, until};

#[test]
fn the_earliest_call_goes_first() {
    let mut space = founds(&node("m0", "sim:3511"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let waiting: Vec<_> = (0..10).map(|_| jobs.write().pop()).collect();
    space.poll();
    for item in 0..10 {
        space.block_on(jobs.write().push(item)).expect("it runs");
    }
    for (item, call) in (0..10).zip(waiting) {
        assert_eq!(space.block_on(call), Ok(item));
    }
}

#[test]
fn a_guard_sees_its_arguments_and_what_others_have_done() {
    let mut space = founds(&node("m0", "sim:3512"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let (seven, five, any) = (jobs.write().take(7), jobs.write().take(5), jobs.write().pop());
    space.block_on(jobs.write().push(5)).expect("it runs");
    assert_eq!(space.block_on(five), Ok(true));
    assert!(space.block_on_for(any, Duration::from_millis(20)).is_none(), "the item was taken");
    space.block_on(jobs.write().push(7)).expect("it runs");
    assert_eq!(space.block_on(seven), Ok(true));
    space.block_on(jobs.write().push(9)).expect("it runs");
    assert_eq!(space.block_on(jobs.read().all()), Ok(vec![9]), "nobody waits for the call that was dropped");
    assert_eq!(space.waiting(), 0);
}

#[test]
fn the_first_alternative_whose_guard_holds_runs() {
    let mut space = founds(&node("m0", "sim:3513"));
    let desk = space.create("desk", &Desk::default()).expect("a majority");
    let waits = desk.write().next();
    for (what, is_urgent) in [("a", false), ("b", false), ("c", true)] {
        space.block_on(desk.write().put(what, is_urgent)).expect("it runs");
    }
    assert_eq!(space.block_on(waits).as_deref(), Ok("a"));
    assert_eq!(space.block_on(desk.write().next()).as_deref(), Ok("c"));
    assert_eq!(space.block_on(desk.write().next()).as_deref(), Ok("b"));
}

#[test]
fn ten_thousand_calls_wait_and_cost_a_write_nothing() {
    let mut space = founds(&node("m0", "sim:3514"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let waiting: Vec<_> = (0..10_000).map(|_| jobs.write().pop()).collect();
    while space.waiting() < waiting.len() {
        space.poll();
    }
    for item in 0..10_000 {
        _ = jobs.write().push(item);
    }
    for (item, call) in (0..10_000).zip(waiting) {
        assert_eq!(space.block_on(call), Ok(item));
    }
}

#[test]
fn a_call_that_waits_ends_with_its_caller() {
    let (mut spaces, jobs) = jobs_with(3, "sim:3515", Duration::from_secs(1));
    let (own, _others) = (jobs[0].write().pop(), jobs[2].write().pop());
    until(&mut spaces, |spaces| spaces[0].waiting() == 1 && spaces[2].waiting() == 1);
    // Each has its place before the next write.
    assert_eq!(result(&mut spaces, jobs[2].write().take_if_there(7)), Ok(false));
    assert_eq!(result(&mut spaces, jobs[0].write().take_if_there(7)), Ok(false));
    drop(spaces.pop());
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == 2));
    for item in [1, 2] {
        assert_eq!(result(&mut spaces, jobs[1].write().push(item)), Ok(()));
    }
    assert_eq!(result(&mut spaces, own), Ok(1));
    let all = |jobs: &Shared<Jobs>| jobs.read().all().now().expect("at once");
    until(&mut spaces, |_| jobs[..2].iter().all(|jobs| all(jobs) == Ok(vec![2])));
}
