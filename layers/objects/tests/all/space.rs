//! Objects of one process.

use std::thread;
use std::time::Duration;

use am_objects::{Builder, CallError, Space, Wire, object};

use crate::common::{Desk, DeskWrites, Jobs, JobsReads, JobsWrites, LONG, founds, node};

/// It has the name of another type.
mod other {
    use super::{Wire, object};

    #[derive(Default, Wire)]
    pub(super) struct Jobs {
        items: u64,
    }

    #[object]
    impl Jobs {
        #[write]
        pub(super) fn push(&mut self, item: u64) {
            self.items = item;
        }
    }
}

/// Its arguments have names that the generated code might use, and its own type.
#[derive(Clone, Debug, Default, PartialEq, Wire)]
struct Names {
    all: Vec<String>,
}

#[object]
impl Names {
    #[read]
    fn has(&self, object: &str) -> bool {
        self.all.iter().any(|name| name == object)
    }

    #[write]
    #[guard(value || !operation.is_empty())]
    fn add(
        &mut self,
        operation: &str,
        arguments: u64,
        value: bool,
        wants_result: bool,
        result: Option<String>,
    ) -> bool {
        self.all.push(format!("{operation}{arguments}{}", result.unwrap_or_default()));
        value && wants_result
    }

    #[write]
    fn swap(&mut self, with: Self) -> Self {
        std::mem::replace(self, with)
    }
}

#[test]
fn arguments_may_have_any_names() {
    let node = node("m0", "sim:3510");
    let mut space = Space::builder(&node).object::<Names>().found("lab").expect("a name");
    let names = space.create("names", &Names::default()).expect("a majority");
    assert_eq!(space.block_on(names.write().add("a", 1, true, false, Some("b".into()))), Ok(false));
    assert_eq!(space.block_on(names.read().has("a1b")), Ok(true));
    let other = Names { all: vec!["other".into()] };
    assert_eq!(space.block_on(names.write().swap(other)), Ok(Names { all: vec!["a1b".into()] }));
}

#[test]
fn operations_run_and_return() {
    let mut space = founds(&node("m0", "sim:3501"));
    let jobs = space.create("jobs", &Jobs { items: [1].into(), popped: 0 }).expect("a majority");
    for item in 2..5 {
        space.block_on(jobs.write().push(item)).expect("it runs");
    }
    assert_eq!(space.block_on(jobs.write().pop()), Ok(1));
    assert_eq!(space.block_on(jobs.read().all()), Ok(vec![2, 3, 4]));
    let sum = space.block_on(async { Ok::<_, CallError>(jobs.write().pop().await? + jobs.write().pop().await?) });
    assert_eq!((sum, jobs.read().len().now().expect("at once"), space.waiting()), (Ok(5), Ok(1), 0));
}

#[test]
fn an_object_has_one_name_and_one_type() {
    let mut space = founds(&node("m0", "sim:3502"));
    let first = space.create("jobs", &Jobs::default()).expect("a majority");
    space.block_on(first.write().push(7)).expect("it runs");
    let again = space.create("jobs", &Jobs::default()).expect("there is one");
    assert_eq!(space.block_on(again.read().all()), Ok(vec![7]));
    assert_eq!(space.create("jobs", &Desk::default()).err(), Some(CallError::TypeDiffers));
    assert_eq!(space.create("jobs", &other::Jobs::default()).err(), Some(CallError::TypeDiffers));
    assert_eq!(space.open::<Desk>("jobs").map(|found| found.err()), Some(Some(CallError::TypeDiffers)));
    assert!(space.open::<Jobs>("others").is_none());
    assert_eq!(space.health(), None);
}

#[test]
fn a_type_that_was_not_named_is_refused() {
    let node = node("m0", "sim:3503");
    let mut space = Space::builder(&node).object::<Desk>().found("lab").expect("a name");
    assert_eq!(space.create("jobs", &Jobs::default()).err(), Some(CallError::TypeUnknown));
    let desk = space.create("desk", &Desk::default()).expect("no other process has heard of the first one");
    assert_eq!((space.block_on(desk.write().put("a", true)), space.health()), (Ok(()), None));
}

#[test]
fn a_write_that_panics_poisons_its_object() {
    let mut space = founds(&node("m0", "sim:3504"));
    let [bad, good] = ["bad", "good"].map(|name| space.create(name, &Jobs::default()).expect("a majority"));
    let waits = bad.write().pop();
    assert_eq!(space.block_on(bad.write().fail("on purpose")), Err(CallError::Poisoned));
    assert_eq!(space.block_on(waits), Err(CallError::Poisoned));
    assert_eq!(space.block_on(bad.write().push(1)), Err(CallError::Poisoned));
    assert_eq!(space.block_on(bad.read().len()), Err(CallError::Poisoned));
    assert_eq!(space.block_on(good.write().push(1)), Ok(()));
}

#[test]
fn threads_call_and_the_node_s_thread_is_woken() {
    let mut space = founds(&node("m0", &format!("shm:am-objects-threads-{}", std::process::id())));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let jobs = jobs.clone();
            thread::spawn(move || {
                for number in 0..100 {
                    jobs.write().push(thread * 100 + number).wait().expect("it runs");
                    assert!(
                        jobs.read().all().wait().expect("a value").contains(&(thread * 100 + number)),
                        "its own write"
                    );
                }
            })
        })
        .collect();
    assert!(space.wait_until(LONG, |_| threads.iter().all(thread::JoinHandle::is_finished)));
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(space.block_on(jobs.read().len()), Ok(400));
    assert_eq!(jobs.write().push(1).wait(), Err(CallError::OnNodeThread));
}

#[test]
fn after_the_end_calls_fail() {
    let mut space = founds(&node("m0", "sim:3505"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let waits = jobs.write().pop();
    space.poll();
    assert_eq!(space.waiting(), 1);
    space.leave(Duration::from_secs(1)).expect("alone it may");
    assert_eq!(waits.now().map_err(|_| "it waits"), Ok(Err(CallError::Unknown)));
    assert_eq!(jobs.write().push(1).now().map_err(|_| "it waits"), Ok(Err(CallError::Ended)));
    assert_eq!(jobs.read().len().now().map_err(|_| "it waits"), Ok(Ok(0)));
}

#[test]
fn saved_objects_are_there_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("objects");
    let mut space = founds(&node("m0", "sim:3507"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let _waits = jobs.write().take(99);
    space.block_on(jobs.write().push(7)).expect("it runs");
    space.save(&path).expect("there is room");
    space.block_on(jobs.write().push(8)).expect("it runs, too late for the file");
    drop(space);

    let again = node("m0", "sim:3508");
    let mut space = Space::builder(&again).object::<Jobs>().saved(&path).found("lab").expect("a name");
    let jobs = space.open::<Jobs>("jobs").expect("it was saved").expect("its type");
    space.block_on(jobs.write().push(99)).expect("it runs");
    assert_eq!(space.block_on(jobs.read().all()), Ok(vec![7, 99]), "nobody waits for 99");
    let other = space.create("others", &Jobs::default()).expect("a majority");
    assert_eq!(space.block_on(other.read().len()), Ok(0));

    let refused = |path: &std::path::Path, types: fn(Builder<'_>) -> Builder<'_>| {
        let node = node("m0", "sim:3509");
        types(Space::builder(&node)).saved(path).found("lab").err().expect("it is refused").to_string()
    };
    assert!(refused(&path, |builder| builder).contains("Builder::object"));
    assert!(
        refused(&directory.path().join("nothing"), |builder| builder.object::<Jobs>())
            .contains("cannot be read: No such file")
    );
    let whole = std::fs::read(&path).expect("it was saved");
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 1, "and nothing else");
    for place in [0, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        std::fs::write(&path, &damaged).expect("there is room");
        assert!(refused(&path, |builder| builder.object::<Jobs>()).contains("damaged"), "at {place}");
    }
    for short in [&b"no objects"[..], b"", &whole[..whole.len() - 1]] {
        std::fs::write(&path, short).expect("there is room");
        assert!(refused(&path, |builder| builder.object::<Jobs>()).contains("no saved objects"));
    }
}

#[test]
fn calls_that_find_no_room_are_refused() {
    let mut space = founds(&node("m0", "sim:3500"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let mut calls: Vec<_> = (0..1 << 16).map(|item| jobs.write().push(item)).collect();
    let refused = jobs.write().push(0).now().map_err(|_| "it waits");
    assert_eq!(refused, Ok(Err(CallError::Full(1 << 16))));
    let last = calls.pop().expect("the last one");
    assert_eq!(space.block_on(last), Ok(()));
    assert_eq!(space.block_on(jobs.read().len()), Ok(1 << 16));
    assert_eq!(space.block_on(jobs.write().push(0)), Ok(()));
}

#[test]
fn a_long_argument_is_refused_and_others_run() {
    let mut space = founds(&node("m0", "sim:3506"));
    let desk = space.create("desk", &Desk::default()).expect("a majority");
    let long = "x".repeat(100 << 20);
    assert!(matches!(space.block_on(desk.write().put(&long, true)), Err(CallError::TooLong { .. })));
    // More than fit wait to leave.
    let waits: Vec<_> = (0..3).map(|_| desk.write().put(&long[..30 << 20], true)).collect();
    let ended = waits.into_iter().map(|call| call.now().map_err(|_| "it waits")).collect::<Vec<_>>();
    assert_eq!(ended, [Err("it waits"), Err("it waits"), Ok(Err(CallError::Full(2)))]);
    let calls: Vec<_> = (0..5000).map(|number| desk.write().put(&format!("{number}"), false)).collect();
    for call in calls {
        space.block_on(call).expect("it runs, though not all have room at once");
    }
    assert_eq!(space.block_on(desk.write().next()).as_deref(), Ok("0"));
}

#[test]
fn a_space_that_is_dropped_ends_its_calls() {
    let mut space = founds(&node("m0", "sim:3508"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let waits = std::thread::spawn({
        let jobs = jobs.clone();
        move || jobs.write().pop().wait()
    });
    assert!(space.wait_until(LONG, |space| space.waiting() == 1));
    drop(space);
    assert_eq!(waits.join().expect("no panic"), Err(CallError::Unknown));
    assert_eq!(jobs.write().push(1).wait(), Err(CallError::Ended));
}
