//! Objects that one process keeps, and objects that move.

use std::net::Ipv4Addr;
use std::time::Duration;

use am_objects::{Call, CallError, Placed, Placement, Shared, Space};

use crate::common::{Jobs, JobsReads, JobsWrites, LONG, founds, jobs, jobs_at, jobs_with, joins, node, result, until};

/// Place the queue by this process, and wait until all know where it is.
fn place(spaces: &mut [Space], jobs: &[Shared<Jobs>], by: usize, placement: Placement<'_>, placed: Placed<'_>) {
    let call = spaces[by].place(&jobs[by], placement);
    assert_eq!(result(spaces, call), Ok(()));
    until(spaces, |spaces| spaces.iter().zip(jobs).all(|(space, jobs)| space.placed(jobs) == placed));
}

fn is_at_once<R>(call: Call<R>) -> bool
where
    R: for<'a> am_objects::codec::Decode<'a>,
{
    call.now().is_ok()
}

fn one_copy_serves_all((mut spaces, jobs): (Vec<Space>, Vec<Shared<Jobs>>)) {
    place(&mut spaces, &jobs, 0, Placement::At("m1"), Placed::At("m1"));
    let calls: Vec<_> = (0..300).map(|number| jobs[number % 3].write().push(number as u64)).collect();
    for call in calls {
        assert_eq!(result(&mut spaces, call), Ok(()));
    }
    for jobs in &jobs {
        assert_eq!(result(&mut spaces, jobs.read().len()), Ok(300));
    }
    assert!(is_at_once(jobs[1].read().len()) && !is_at_once(jobs[0].read().len()) && !is_at_once(jobs[2].read().len()));
    let popped = [0, 1, 2].map(|at| result(&mut spaces, jobs[at].write().pop()).expect("there are some"));
    assert!(popped[0] != popped[1] && popped[1] != popped[2], "{popped:?}");
    // Its value goes with it.
    place(&mut spaces, &jobs, 2, Placement::At("m2"), Placed::At("m2"));
    assert_eq!(result(&mut spaces, jobs[1].read().popped()), Ok(3));
    place(&mut spaces, &jobs, 0, Placement::Replicated, Placed::Replicated);
    assert!(jobs.iter().all(|jobs| jobs.read().len().now().is_ok_and(|len| len == Ok(297))));
}

#[test]
fn one_copy_serves_all_on_the_simulated_network() {
    one_copy_serves_all(jobs(3, "sim:3541,loss=0.01"));
}

#[test]
fn one_copy_serves_all_over_shared_memory() {
    one_copy_serves_all(jobs(3, &format!("shm:am-objects-kept-{}", std::process::id())));
}

#[test]
fn a_new_object_is_where_it_is_wanted() {
    let (near, far) = (node("m0", "sim:3542"), node("m1", "sim:3542"));
    let mut spaces = vec![founds(&near)];
    let jobs = spaces[0].create_at("jobs", &Jobs::default(), Placement::At("m0")).expect("alone it is a majority");
    result(&mut spaces, jobs.write().push(7)).expect("it runs");
    let nobody = spaces[0].create_at("more", &Jobs::default(), Placement::At("m9"));
    assert_eq!(nobody.map(drop), Err(CallError::NoSuchProcess));
    spaces.push(joins(&far, "m0"));
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == 2));
    let there: Shared<Jobs> = spaces[1].open("jobs").expect("it came with the state").expect("its type");
    assert_eq!(spaces[1].placed(&there), Placed::At("m0"));
    assert_eq!(result(&mut spaces, there.write().pop()), Ok(7));
    // A file has the values that are here.
    let directory = tempfile::tempdir().expect("a directory");
    let refused = spaces[1].save(directory.path().join("x")).expect_err("another process has it");
    assert!(refused.to_string().contains("keeps the object `jobs`"), "{refused}");
    assert!(spaces[0].save(directory.path().join("x")).is_ok());
}

/// A guard waits where the object is, wherever that is.
#[test]
fn calls_that_wait_move_with_their_object() {
    let (mut spaces, jobs) = jobs(3, "sim:3543");
    let waits = [0, 1, 2].map(|at| jobs[at].write().take(at as u64));
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.waiting() == 1));
    place(&mut spaces, &jobs, 0, Placement::At("m1"), Placed::At("m1"));
    place(&mut spaces, &jobs, 0, Placement::At("m2"), Placed::At("m2"));
    result(&mut spaces, jobs[0].write().push(0)).expect("it runs");
    let [first, second, third] = waits;
    assert_eq!(result(&mut spaces, first), Ok(true));
    place(&mut spaces, &jobs, 1, Placement::Replicated, Placed::Replicated);
    result(&mut spaces, jobs[2].write().push(1)).expect("it runs");
    assert_eq!(result(&mut spaces, second), Ok(true));
    // One that is dropped is taken back.
    place(&mut spaces, &jobs, 0, Placement::At("m0"), Placed::At("m0"));
    drop(third);
    until(&mut spaces, |spaces| spaces[2].waiting() == 0);
    result(&mut spaces, jobs[0].write().push(2)).expect("it runs");
    assert_eq!(result(&mut spaces, jobs[2].read().all()), Ok(vec![2]));
}

#[test]
fn an_object_is_lost_with_the_process_that_keeps_it() {
    let (mut spaces, jobs) = jobs_with(3, "sim:3544", Duration::from_millis(300));
    place(&mut spaces, &jobs, 0, Placement::At("m2"), Placed::At("m2"));
    let waits = jobs[0].write().pop();
    until(&mut spaces, |spaces| spaces[0].waiting() == 1);
    drop(spaces.pop());
    assert_eq!(
        result(&mut spaces, waits).map_err(|why| matches!(why, CallError::Lost | CallError::Unknown)),
        Err(true)
    );
    assert_eq!(result(&mut spaces, jobs[1].write().push(1)), Err(CallError::Lost));
    until(&mut spaces, |spaces| spaces[0].placed(&jobs[0]) == Placed::Lost);
    // Under its name there may be another one.
    let call = spaces[1].place(&jobs[1], Placement::Replicated);
    assert_eq!(result(&mut spaces, call), Err(CallError::Lost));
}

#[test]
fn a_process_that_leaves_gives_away_what_it_keeps() {
    let on = "sim:3545";
    let mut space = founds(&node("m0", on));
    let jobs = space.create("jobs", &Jobs::default()).expect("alone it is a majority");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut space = joins(&node("m2", on), "m0");
            space.wait_until(LONG, |space| space.view().members.len() == 2);
            let jobs: Shared<Jobs> = space.open("jobs").expect("it is there").expect("its type");
            let placed = space.place(&jobs, Placement::At("m2"));
            space.block_on(placed).expect("it moves");
            space.block_on(jobs.write().push(7)).expect("it runs here");
            space.leave(LONG)
        });
        space.wait_until(LONG, |_| other.is_finished());
        other.join().expect("no panic").expect("it has left");
    });
    assert_eq!(space.placed(&jobs), Placed::At("m0"));
    assert_eq!(space.block_on(jobs.read().all()), Ok(vec![7]));
}

/// Each push is there once, however often the queue moves meanwhile.
#[test]
fn an_object_moves_under_load() {
    let (mut spaces, jobs) = jobs(3, &format!("shm:am-objects-moves-{}", std::process::id()));
    let places = [Placement::At("m1"), Placement::Replicated, Placement::At("m2"), Placement::At("m0")];
    let (mut calls, mut next, mut moves) = (vec![], 0, 0);
    for round in 0..200 {
        let moved = spaces[round % 3].place(&jobs[round % 3], places[round % places.len()]);
        for _ in 0..20 {
            calls.push(jobs[next as usize % 3].write().push(next));
            next += 1;
            spaces.iter_mut().for_each(|space| _ = space.poll());
        }
        moves += usize::from(result(&mut spaces, moved) == Ok(()));
    }
    for call in calls {
        assert_eq!(result(&mut spaces, call), Ok(()));
    }
    let mut all = result(&mut spaces, jobs[0].read().all()).expect("it is there");
    all.sort_unstable();
    assert!(all.into_iter().eq(0..next) && moves == 200, "{moves} moves");
}

#[test]
fn an_object_follows_its_use_and_comes_back() {
    let (mut spaces, jobs) = jobs(3, &format!("shm:am-objects-follows-{}", std::process::id()));
    let follows = spaces[0].place(&jobs[0], Placement::Adaptive);
    assert_eq!(result(&mut spaces, follows), Ok(()));
    for number in 0..6000 {
        result(&mut spaces, jobs[2].write().take_if_there(number)).expect("it runs");
    }
    until(&mut spaces, |spaces| spaces.iter().zip(&jobs).all(|(space, jobs)| space.placed(jobs) == Placed::At("m2")));
    for number in 0..60_000 {
        let reads = [0, 1].map(|at| jobs[at].read().len());
        for read in reads {
            result(&mut spaces, read).expect("it is there");
        }
        if number % 1000 == 0 && spaces[0].placed(&jobs[0]) == Placed::Replicated {
            break;
        }
    }
    until(&mut spaces, |spaces| spaces.iter().zip(&jobs).all(|(space, jobs)| space.placed(jobs) == Placed::Replicated));
}

/// Whatever is under way when a space is dropped, its node closes, and its address is free.
#[test]
fn a_space_that_is_dropped_lets_its_node_go() {
    let addresses = [(); 2].map(|()| format!("127.0.0.1:{}", am_netns::free_port(Ipv4Addr::LOCALHOST)));
    let on = |own: usize| format!("udp:{},peer={}", addresses[own], addresses[1 - own]);
    let nodes = [0, 1].map(|own| node(&format!("m{own}"), &on(own)));
    let (mut spaces, jobs) = jobs_at(nodes.into(), LONG);
    place(&mut spaces, &jobs, 0, Placement::At("m0"), Placed::At("m0"));
    let (waits, _later) = (jobs[1].write().pop(), jobs[1].read().len());
    until(&mut spaces, |spaces| spaces[1].waiting() > 0);
    let calls: Vec<_> = (0..100).map(|number| jobs[1].write().take(number)).collect();
    (0..20).for_each(|_| spaces.iter_mut().for_each(|space| _ = space.poll()));
    drop(spaces);
    for own in 0..2 {
        assert!(am_api::Node::open("again", &on(own)).is_ok(), "its address is in use");
    }
    assert_eq!(waits.now().map_err(|_| "it waits"), Ok(Err(CallError::Unknown)));
    drop(calls);
}
