//! A process joins while the others write as fast as they can. To measure it on an idle machine, with the default silence in milliseconds:
//! `AM_JOIN_SILENCE=100 AM_JOIN_MIB=60 cargo test --release -p am-objects --test all joins:: -- --nocapture`.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_objects::{Builder, Call, CallError, Settings, Shared, Space, Wire, object};

const LONG: Duration = Duration::from_secs(300);
/// Writes of a process that are on their way.
const IN_FLIGHT: usize = 16;
/// A block's bytes. Besides there is one block with a tenth of all bytes.
const BLOCK: u64 = 1 << 20;

/// Bytes, and the number of writes.
#[derive(Default, Wire)]
struct Block {
    bytes: Vec<u8>,
    writes: u64,
}

#[object]
impl Block {
    #[read]
    fn writes(&self) -> u64 {
        self.writes
    }

    #[read]
    fn sum(&self) -> u64 {
        self.bytes.iter().fold(self.writes, |sum, byte| sum.rotate_left(1) ^ u64::from(*byte))
    }

    #[write]
    fn put(&mut self, at: u64, byte: u8) {
        let length = self.bytes.len() as u64;
        self.bytes[(at % length) as usize] = byte;
        self.writes += 1;
    }
}

fn builder(node: &Node) -> Builder<'_> {
    Space::builder(node)
        .object::<Block>()
        // Tests beside this one keep the cores busy.
        .settings(Settings { patience: Duration::from_secs(20), silence: silence(), ..Settings::default() })
}

/// What all threads see.
#[derive(Default)]
struct Run {
    /// The writers run, and all have to end.
    writes: AtomicBool,
    ends: AtomicBool,
    /// Members that have nothing to write any more.
    ended: AtomicU64,
    done: AtomicU64,
    views: AtomicU64,
}

/// The longest pause between two writes that are done, and how many there were.
#[derive(Debug, Default)]
struct Pauses {
    longest: Duration,
    count: u64,
}

/// Write to all blocks in turn, as fast as results come.
fn write(space: &mut Space, blocks: &[Shared<Block>], run: &Run) -> Pauses {
    let (mut calls, mut last, mut pauses) = (vec![], Instant::now(), Pauses::default());
    let mut next = 0_u64;
    let mut is_over = false;
    while !is_over || !calls.is_empty() {
        is_over = run.ends.load(Relaxed);
        while !is_over && calls.len() < IN_FLIGHT {
            next += 1;
            let mixed = next.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let block = &blocks[((mixed >> 40) % blocks.len() as u64) as usize];
            calls.push(block.write().put(mixed, next as u8));
        }
        space.wait(Duration::from_millis(1));
        for call in std::mem::take(&mut calls) {
            match Call::now(call) {
                Ok(result) => {
                    result.expect("it runs");
                    pauses.longest = pauses.longest.max(last.elapsed());
                    (last, pauses.count) = (Instant::now(), pauses.count + 1);
                    run.done.fetch_add(1, Relaxed);
                }
                Err(call) => calls.push(call),
            }
        }
        run.views.fetch_max(space.view().epoch.0.into(), Relaxed);
    }
    pauses
}

/// What all processes have to agree about.
fn sums(blocks: &[Shared<Block>]) -> Result<Vec<u64>, CallError> {
    blocks.iter().map(|block| block.read().sum().now().unwrap_or_else(|_| panic!("at once"))).collect()
}

/// Poll until the others have ended, too, and all writes are here.
fn end(space: &mut Space, run: &Run, blocks: &[Shared<Block>]) -> Vec<u64> {
    run.ended.fetch_add(1, Relaxed);
    space.wait_until(LONG, |_| run.ended.load(Relaxed) >= 3);
    let all = || blocks.iter().map(|block| block.read().writes().now().expect("at once").expect("a value"));
    let began = Instant::now();
    while all().sum::<u64>() < run.done.load(Relaxed) && began.elapsed() < LONG {
        space.wait(Duration::from_millis(10));
    }
    let sums = sums(blocks).expect("no block is poisoned");
    // Others may need what this one has.
    run.ended.fetch_add(1, Relaxed);
    space.wait_until(LONG, |_| run.ended.load(Relaxed) >= 6);
    sums
}

fn founds(node: &Node, mib: u64, run: &Run) -> (Pauses, Vec<u64>, u64) {
    let mut space = builder(node).found("blocks").expect("a name");
    let small = mib * 9 / 10;
    let lengths = (0..small).map(|_| BLOCK).chain([(mib - small) * BLOCK]);
    let blocks: Vec<Shared<Block>> = lengths
        .enumerate()
        .map(|(nth, length)| {
            let block = Block { bytes: vec![7; length as usize], writes: 0 };
            space.create(&format!("{nth}"), &block).expect("alone it is a majority")
        })
        .collect();
    assert!(space.wait_until(LONG, |space| space.view().members.len() == 2), "{:?}", space.health());
    run.writes.store(true, Relaxed);
    let first = space.view().sequencer;
    let pauses = write(&mut space, &blocks, run);
    assert_eq!(space.view().sequencer, first, "no other sequencer");
    let sums = end(&mut space, run, &blocks);
    (pauses, sums, space.view().members.len() as u64)
}

fn joins(node: &Node, nth: usize, mib: u64, run: &Run) -> (Space, Vec<Shared<Block>>, Duration) {
    let began = Instant::now();
    let mut space = builder(node).join("blocks", &["m0"]).expect("a name");
    assert!(
        space.wait_until(LONG, |space| space.view().members.len() > nth && space.is_primary()),
        "{:?}",
        space.health()
    );
    let took = began.elapsed();
    assert!(!run.ends.load(Relaxed), "the others write");
    let blocks = (0..=mib * 9 / 10).map(|nth| space.open(&format!("{nth}")).expect("it came").expect("its type"));
    let blocks = blocks.collect();
    (space, blocks, took)
}

fn a_process_joins(mib: u64, on: &(impl Fn(usize) -> Node + Sync)) {
    let run = &Run::default();
    thread::scope(|scope| {
        let first = scope.spawn(move || founds(&on(0), mib, run));
        let second = scope.spawn(move || {
            let (mut space, blocks, took) = joins(&on(1), 1, mib, run);
            let pauses = write(&mut space, &blocks, run);
            (pauses, end(&mut space, run, &blocks), took)
        });
        let third = scope.spawn(move || {
            while !run.writes.load(Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            thread::sleep(Duration::from_millis(500));
            let (done, views) = (run.done.load(Relaxed), run.views.load(Relaxed));
            let (mut space, blocks, took) = joins(&on(2), 2, mib, run);
            let done = run.done.load(Relaxed) - done;
            let changes = space.view().epoch.0 as u64 - views;
            run.ends.store(true, Relaxed);
            (end(&mut space, run, &blocks), took, done, changes)
        });
        let (sums, took, done, changes) = third.join().expect("the one that joins");
        let (second, others, alone) = second.join().expect("the second");
        let (first, own, members) = first.join().expect("the first");
        let rate = done as f64 / took.as_secs_f64();
        println!(
            "{mib} MiB: {took:.2?} to join at {rate:.0} writes/s ({alone:.2?} without writes); longest pauses {:.1?}, {:.1?}; {changes} change of the view",
            first.longest, second.longest
        );
        assert_eq!((members, changes), (3, 1), "no process was put out, and no other became the sequencer");
        assert!(own == others && own == sums, "one value everywhere");
        assert!(first.count > 0 && second.count > 0);
    });
}

/// The time after which a silent sequencer is replaced: by default longer than that of a group, because the machine may be busy.
fn silence() -> Duration {
    Duration::from_millis(env::var("AM_JOIN_SILENCE").map_or(10_000, |ms| ms.parse().expect("milliseconds")))
}

fn mib() -> u64 {
    env::var("AM_JOIN_MIB").map_or(60, |mib| mib.parse().expect("a number of MiB"))
}

#[test]
fn a_process_joins_over_shared_memory_while_others_write() {
    let on = format!("shm:am-objects-joins-{}", std::process::id());
    a_process_joins(mib(), &|nth| Node::builder(&format!("m{nth}")).max_message(1 << 28).open(&on).expect("a node"));
}
