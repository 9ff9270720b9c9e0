//! Helpers: a thread has the space, and the program computes.

use std::hint::black_box;
use std::process::id;
use std::thread;
use std::time::{Duration, Instant};

use am_api::Idle;
use am_objects::{CallError, Helper, Settings, Shared, Space, StartError};

use crate::common::{Jobs, JobsReads, JobsWrites, LONG};

/// A process that is silent for this time is put out.
const PATIENCE: Duration = Duration::from_millis(1500);

type Started = (Helper, Shared<Jobs>);

/// The process of this number, on a network for this test.
fn helper(test: &str, number: usize) -> Started {
    let on = format!("shm:am-objects-helper-{test}-{}", id());
    let open = move || {
        // The helper sleeps, whatever the node was opened to do.
        let node = am_api::Node::builder(&format!("m{number}")).idle(Idle::spinning()).open(&on);
        let node = node.map_err(|why| why.to_string())?;
        let settings = Settings { patience: PATIENCE, ..Settings::default() };
        let builder = Space::builder(&node).object::<Jobs>().settings(settings);
        let space = if number == 0 { builder.found("lab") } else { builder.join("lab", &["m0"]) };
        let mut space = space.map_err(|why| why.to_string())?;
        space.wait_until(LONG, |space| space.is_primary() && space.view().members.len() > number);
        let jobs = space.create("jobs", &Jobs::default()).map_err(|why| why.to_string())?;
        Ok::<_, String>((space, jobs))
    };
    Helper::start(&format!("helper-{number}"), open).expect("a helper")
}

/// Compute, and never poll, for this time.
fn compute(time: Duration) {
    let (start, mut number) = (Instant::now(), 7_u64);
    while start.elapsed() < time {
        number = (0..1000).fold(number, |number, _| black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1));
    }
}

fn members(helper: &Helper) -> usize {
    helper.run(|space| space.view().members.len()).expect("it runs")
}

fn ids(space: &mut Space) -> Vec<u64> {
    space.view().ids().map(|id| id.0).collect()
}

#[test]
fn a_process_that_computes_for_longer_than_the_patience_is_not_put_out_and_sees_what_others_write() {
    let (first, jobs) = helper("computes", 0);
    let (second, copy) = helper("computes", 1);
    assert!(first.run(|space| space.wait_until(LONG, |space| space.view().members.len() == 2)).expect("it runs"));
    let view = second.run(ids).expect("it runs");
    let other = thread::spawn(move || {
        for item in 0..30 {
            jobs.write().push(item).wait()?;
            thread::sleep(PATIENCE / 10);
        }
        Ok::<_, CallError>(())
    });
    let (mut seen, begin) = (vec![], Instant::now());
    while begin.elapsed() < 3 * PATIENCE || copy.read().len().wait() != Ok(30) {
        assert!(begin.elapsed() < LONG, "{seen:?}");
        compute(PATIENCE / 5);
        seen.push(copy.read().len().wait().expect("a copy here"));
    }
    other.join().expect("no panic").expect("all are written");
    assert!(
        seen.windows(2).all(|two| two[0] <= two[1]) && seen.iter().any(|count| (1..30).contains(count)),
        "{seen:?}"
    );
    assert_eq!((members(&first), members(&second)), (2, 2));
    assert_eq!(second.run(ids).expect("it runs"), view, "one that was put out has another number");
    // It writes, too.
    assert_eq!(copy.write().pop().wait(), Ok(0));
    second.stop(LONG).expect("it leaves");
    first.stop(LONG).expect("it leaves");
}

#[test]
fn a_write_that_waits_for_its_guard_wakes_after_the_helper_slept() {
    let (first, jobs) = helper("guard", 0);
    let waiting = jobs.clone();
    let waits = thread::spawn(move || waiting.write().pop().wait());
    // Longer than the helper polls for a waiting thread.
    thread::sleep(Duration::from_millis(50));
    jobs.write().push(7).wait().expect("it runs");
    assert_eq!(waits.join().expect("no panic"), Ok(7));
    first.stop(LONG).expect("it leaves");
    assert_eq!(jobs.write().push(8).wait(), Err(CallError::Ended));
}

#[test]
fn a_helper_that_cannot_open_or_panics_says_why() {
    let error = Helper::start("fails", || Err::<(Space, ()), _>("no network")).expect_err("no space");
    assert_eq!(error.to_string(), "the helper did not start: no network");
    let open = || -> Result<(Space, ()), String> { panic!("as the test wants") };
    let error = Helper::start("panics", open).expect_err("a panic");
    assert_eq!(error.to_string(), "the helper's thread panicked: as the test wants");
    let error = Helper::start("two\0names", || Err::<(Space, ()), _>(""));
    assert!(matches!(error, Err(StartError::Name)));
    let (helper, _) = helper("panics", 0);
    assert!(helper.run::<()>(|_| panic!("as the test wants")).is_err());
    let error = helper.stop(LONG).expect_err("it has panicked");
    assert_eq!(error.to_string(), "the helper's thread panicked: as the test wants");
}
