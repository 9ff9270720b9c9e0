//! Programs that do what they should not, or do it ten thousand times.

use std::fmt::Debug;
use std::sync::Mutex;
use std::time::Duration;

use am_objects::codec::{Decode, DecodeError, Encode, Reader, Schema, Writer};
use am_objects::{Call, CallError, Placed, Placement, Shared, Space, Wire, object};

use crate::common::{Desk, Jobs, JobsReads, JobsWrites, founds, jobs, joins, node, result, until};

/// Its operations and arguments have names that the library uses.
#[derive(Default, Wire)]
struct Names {
    all: Vec<u64>,
}

#[object]
impl Names {
    #[read]
    fn here(&self, here: u64) -> bool {
        self.all.contains(&here)
    }

    #[read]
    fn ask(&self) -> u64 {
        self.all.len() as u64
    }

    #[write]
    fn run(&mut self, reads: u64) -> u64 {
        self.all.push(reads);
        reads
    }
}

/// A number. 7 cannot be written.
#[derive(Debug, Default, PartialEq)]
struct Odd(u8);

impl Encode for Odd {
    fn size(&self) -> usize {
        1
    }

    fn encode(&self, to: &mut Writer<'_>) {
        assert_ne!(self.0, 7, "on purpose");
        self.0.encode(to);
    }
}

impl<'a> Decode<'a> for Odd {
    const MIN_SIZE: usize = 1;

    fn decode(from: &mut Reader<'a>) -> Result<Odd, DecodeError> {
        u8::decode(from).map(Odd)
    }
}

impl Schema for Odd {
    const SCHEMA: u64 = 0x6f64_6421;
}

#[derive(Default, Wire)]
struct Odds {
    last: Odd,
    writes: u64,
}

#[object]
impl Odds {
    #[read]
    fn writes(&self) -> u64 {
        self.writes
    }

    #[write]
    fn set(&mut self, to: u8) {
        (self.last, self.writes) = (Odd(to), self.writes + 1);
    }

    #[write]
    fn give(&mut self, number: u8) -> Odd {
        self.writes += 1;
        Odd(number)
    }
}

/// Where an operation finds its own object, which it should not look for.
static OWN: Mutex<Option<Shared<Selfish>>> = Mutex::new(None);

fn own() -> Shared<Selfish> {
    OWN.lock().expect("no panic").clone().expect("it is there")
}

fn text<R: Debug + for<'a> Decode<'a>>(call: Call<R>) -> String {
    format!("{:?}", call.now().map_err(|_| "it waits"))
}

#[derive(Default, Wire)]
struct Selfish {
    writes: u64,
}

#[object]
impl Selfish {
    #[read]
    fn writes(&self) -> u64 {
        self.writes
    }

    /// Reads itself once a write waits for it.
    #[read]
    fn slow(&self) -> String {
        std::thread::sleep(Duration::from_millis(200));
        text(own().read().writes())
    }

    #[read]
    fn waits(&self) -> String {
        format!("{:?}", own().write().add().wait())
    }

    #[write]
    fn add(&mut self) -> String {
        self.writes += 1;
        text(own().read().writes())
    }
}

fn odds(on: &str) -> Space {
    Space::builder(&node("m0", on)).object::<Odds>().found("lab").expect("a name")
}

/// A lock would wait for itself, and the thread that polls for the lock.
#[test]
fn an_operation_that_calls_its_own_object_hears_why_not() {
    let node = node("m0", "sim:3578");
    let mut space = Space::builder(&node).object::<Selfish>().found("lab").expect("a name");
    let object = space.create("selfish", &Selfish::default()).expect("a majority");
    *OWN.lock().expect("no panic") = Some(object.clone());
    let why = format!("Ok(Err({}))", CallError::InOperation);
    assert_eq!(space.block_on(object.write().add()).as_ref(), Ok(&why));
    let reads = std::thread::spawn({
        let object = object.clone();
        move || [object.read().slow().wait(), object.read().waits().wait()]
    });
    while !reads.is_finished() {
        space.block_on(object.write().add()).expect("it runs");
    }
    let [slow, waits] = reads.join().expect("no panic");
    assert_eq!((slow, waits), (Ok(why), Ok(format!("Err({})", CallError::InOperation))));
    assert_eq!(space.block_on(object.read().writes()).map(|writes| writes > 1), Ok(true));
}

#[test]
fn operations_may_have_any_names() {
    let node = node("m0", "sim:3570");
    let mut space = Space::builder(&node).object::<Names>().found("lab").expect("a name");
    let names = space.create("names", &Names::default()).expect("a majority");
    assert_eq!(space.block_on(names.write().run(7)), Ok(7));
    assert_eq!(space.block_on(names.read().here(7)), Ok(true));
    assert_eq!(space.block_on(names.read().ask()), Ok(1));
}

/// The other processes write no result, so what its writing does must not change the object.
#[test]
fn a_result_that_cannot_be_written_poisons_nothing() {
    let mut space = odds("sim:3571");
    let odds = space.create("odds", &Odds::default()).expect("a majority");
    assert_eq!(space.block_on(odds.write().give(7)), Err(CallError::Malformed));
    assert_eq!(space.block_on(odds.read().writes()), Ok(1));
    assert_eq!(space.block_on(odds.write().give(8)), Ok(Odd(8)));
}

#[test]
fn a_value_that_cannot_be_written_is_not_saved_and_stays_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("objects");
    let mut space = odds("sim:3572");
    let odds = space.create("odds", &Odds::default()).expect("a majority");
    space.save(&path).expect("there is room");
    let saved = std::fs::read(&path).expect("it was saved");
    // A digest is due in between.
    for _ in 0..1100 {
        assert_eq!(space.block_on(odds.write().set(7)), Ok(()));
    }
    assert!(space.save(&path).is_err_and(|why| why.to_string().contains("`Encode`")));
    assert_eq!(std::fs::read(&path).expect("it is there"), saved);
}

#[test]
fn a_process_that_has_not_joined_saves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("objects");
    std::fs::write(&path, "of an earlier run").expect("there is room");
    let space = joins(&node("m0", "sim:3573"), "nobody");
    assert!(space.save(&path).is_err_and(|why| why.to_string().contains("has not joined")));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "of an earlier run");
}

#[test]
fn a_file_that_cannot_be_replaced_leaves_none_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("objects");
    std::fs::create_dir(&path).expect("there is room");
    founds(&node("m0", "sim:3574")).save(&path).expect_err("it is a directory");
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 1);
}

/// Both have the same number.
#[test]
fn an_object_of_another_space_is_not_placed() {
    let node = node("m0", "sim:3575");
    let mut space = founds(&node);
    let mut other = Space::builder(&node).object::<Desk>().found("other").expect("a name");
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let desk = other.create("desk", &Desk::default()).expect("a majority");
    let placed = space.place(&desk, Placement::At("m0"));
    assert_eq!(space.block_on(placed), Err(CallError::OtherSpace));
    assert_eq!((space.placed(&jobs), space.placed(&desk)), (Placed::Replicated, Placed::Lost));
}

/// Without room for the write that they wait for they would wait for ever.
#[test]
fn thousands_wait_at_an_object_that_another_process_keeps() {
    let (mut spaces, jobs) = jobs(2, "sim:3576");
    let placed = spaces[0].place(&jobs[0], Placement::At("m0"));
    assert_eq!(result(&mut spaces, placed), Ok(()));
    let waits: Vec<_> = (0..3000).map(|_| jobs[1].write().pop()).collect();
    let push = jobs[1].write().push(7);
    assert_eq!(result(&mut spaces, push), Ok(()));
    let first = waits.into_iter().next().expect("the first one");
    assert_eq!(result(&mut spaces, first), Ok(7));
    until(&mut spaces, |spaces| spaces[1].waiting() == 0);
    assert_eq!(result(&mut spaces, jobs[1].read().popped()), Ok(1));
}

#[test]
fn sixty_thousand_waiting_calls_are_dropped_at_once() {
    let mut space = founds(&node("m0", "sim:3577"));
    let jobs = space.create("jobs", &Jobs::default()).expect("a majority");
    let waits: Vec<_> = (0..60_000).map(|item| jobs.write().take(item)).collect();
    let push = jobs.write().push(60_000);
    space.block_on(push).expect("it runs");
    drop(waits);
    assert!(space.wait_until(Duration::from_secs(10), |space| space.waiting() == 0), "{} are left", space.waiting());
}
