//! Calls that get no answer end, and what is gone has no effect.

use std::time::{Duration, Instant};

use am_api::Node;
use am_objects::{CallError, Placement, Shared, Space};

use crate::common::{
    Desk, DeskWrites, Jobs, JobsReads, JobsWrites, LONG, founds, jobs_with, joins, node, result, until,
};

#[test]
fn arguments_longer_than_a_message_end_a_call_of_a_kept_object() {
    let nodes = ["m0", "m1"].map(|name| Node::builder(name).max_message(1 << 16).open("sim:3551").expect("a node"));
    let mut spaces = vec![founds(&nodes[0])];
    let created = spaces[0].create_at("desk", &Desk::default(), Placement::At("m0"));
    drop(created.expect("alone it is a majority"));
    spaces.push(joins(&nodes[1], "m0"));
    until(&mut spaces, |spaces| spaces[1].open::<Desk>("desk").is_some());
    let desk: Shared<Desk> = spaces[1].open("desk").expect("it is there").expect("its type");
    let put = desk.write().put(&"x".repeat(1 << 20), true);
    let why = result(&mut spaces, put).expect_err("it fits no message");
    assert!(matches!(why, CallError::TooLong { needs, most } if needs > 1 << 20 && most < 1 << 17), "{why}");
    // Nor does the result: it is there, and stays.
    for _ in 0..3 {
        let put = desk.write().put(&"y".repeat(1 << 15), true);
        assert_eq!(result(&mut spaces, put), Ok(()));
    }
    let all = desk.write().clear();
    assert_eq!(result(&mut spaces, all), Err(CallError::ResultTooLong));
}

/// The object is neither where the caller was nor at the sequencer, which hears of no such wait.
#[test]
fn what_a_process_that_is_gone_waited_for_is_left_to_others() {
    let (mut spaces, jobs) = jobs_with(3, "sim:3552", Duration::from_secs(2));
    let placed = spaces[0].place(&jobs[0], Placement::At("m1"));
    assert_eq!(result(&mut spaces, placed), Ok(()));
    let waits = jobs[2].write().pop();
    until(&mut spaces, |spaces| spaces[2].waiting() == 1);
    // A read behind it is answered: it is there.
    assert_eq!(result(&mut spaces, jobs[2].read().len()), Ok(0));
    drop((waits, spaces.pop()));
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == 2));
    assert_eq!(result(&mut spaces, jobs[0].write().push(7)), Ok(()));
    assert_eq!(result(&mut spaces, jobs[0].read().popped()), Ok(0));
    assert_eq!(result(&mut spaces, jobs[1].write().pop()), Ok(7));
}

/// It would give others the objects of a time long ago.
#[test]
fn a_process_that_lacks_a_type_leaves_and_gives_no_state() {
    let on = "sim:3553";
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let lacks = node("m0", on);
            let mut space = Space::builder(&lacks).object::<Jobs>().found("lab").expect("a name");
            let has_ended = space.wait_until(LONG, |space| space.ended().is_some());
            (has_ended, space.health())
        });
        let nodes = ["m1", "m2"].map(|name| node(name, on));
        let mut spaces = vec![joins(&nodes[0], "m0")];
        until(&mut spaces, |spaces| spaces[0].view().members.len() == 2);
        spaces[0].create("desk", &Desk::default()).expect("it has the type");
        until(&mut spaces, |_| first.is_finished());
        let (has_ended, health) = first.join().expect("no panic");
        assert!(has_ended && health.as_ref().is_some_and(|trouble| trouble.contains("does not know")), "{health:?}");
        spaces.push(joins(&nodes[1], "m1"));
        until(&mut spaces, |spaces| spaces.iter().all(|space| space.open::<Desk>("desk").is_some()));
    });
}

/// It was asked, or could not be. Two processes are without a majority then, so the object is not lost.
#[test]
fn a_read_of_an_object_whose_process_does_not_answer_has_not_run() {
    let nodes = ["m0", "m1"].map(|name| node(name, "sim:3556"));
    let open = |node| Space::builder(node).object::<Jobs>().patience(Duration::from_millis(500));
    let mut spaces = vec![open(&nodes[0]).found("lab").expect("a name")];
    let jobs = spaces[0].create("jobs", &Jobs::default()).expect("alone it is a majority");
    spaces.push(open(&nodes[1]).join("lab", &["m0"]).expect("a name"));
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == 2));
    let placed = spaces[0].place(&jobs, Placement::At("m1"));
    assert_eq!(result(&mut spaces, placed), Ok(()));
    assert_eq!(result(&mut spaces, jobs.read().len()), Ok(0));
    // It has the question, and does not poll.
    assert_eq!(result(&mut spaces[..1], jobs.read().len()), Err(CallError::NotRun));
    let write = jobs.write().push(1);
    assert_eq!(result(&mut spaces[..1], write), Err(CallError::Unknown));
    let read = jobs.read().len();
    spaces[0].poll();
    drop(spaces.pop());
    assert_eq!(result(&mut spaces, read), Err(CallError::NotRun));
    assert_eq!(result(&mut spaces, jobs.read().len()), Err(CallError::NotRun));
}

/// It has the state of the others once it finds out. Until it has left, they may not wait for it.
#[test]
fn a_process_that_lacks_a_type_does_not_count_when_it_joins() {
    for (count, on) in [(1, "sim:3557"), (2, "sim:3558")] {
        let (mut spaces, jobs) = jobs_with(count, on, LONG);
        let other = node("other", on);
        spaces.push(Space::builder(&other).object::<Desk>().join("lab", &["m0"]).expect("a name"));
        until(&mut spaces, |spaces| spaces[count].ended().is_some());
        let lacks = spaces.pop().expect("the new one");
        let health = lacks.health();
        assert!(health.as_ref().is_some_and(|trouble| trouble.contains("does not know")), "{health:?}");
        drop(lacks);
        // If it were still to become a member, it would be one by then.
        let began = Instant::now();
        until(&mut spaces, |_| began.elapsed() > Duration::from_millis(500));
        let began = Instant::now();
        assert_eq!(result(&mut spaces, jobs[0].write().push(7)), Ok(()));
        assert!(began.elapsed() < LONG / 4, "{:?}", began.elapsed());
        assert!(spaces.iter().all(|space| space.view().members.len() == count));
    }
}

#[test]
fn a_process_that_joins_may_place_an_object_at_once() {
    let on = "sim:3554";
    let mut space = founds(&node("m0", on));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut space = joins(&node("m1", on), "m0");
            space.create_at("jobs", &Jobs::default(), Placement::At("m0")).map(drop)
        });
        space.wait_until(LONG, |_| other.is_finished());
        assert_eq!(other.join().expect("no panic"), Ok(()));
    });
}

#[test]
fn the_longest_times_are_times() {
    let node = node("m0", "sim:3555");
    let mut space = Space::builder(&node).object::<Jobs>().patience(Duration::MAX).found("lab").expect("a name");
    let jobs = space.create("jobs", &Jobs::default()).expect("alone it is a majority");
    assert_eq!(space.block_on_for(jobs.write().push(1), Duration::MAX), Some(Ok(())));
    assert!(space.wait_until(Duration::MAX, |space| space.waiting() == 0));
    space.leave(Duration::MAX).expect("nobody is left behind");
}
