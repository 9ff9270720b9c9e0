//! Threads of eight hosts on one bridge, which write, read and read the latest value while hosts crash and join, and the object moves. Each of them checks what it sees:
//! its own writes, once and in order; no value older than the last one; and by a latest read each write that was done anywhere when it began.
//!
//! `AM_BRIDGE_SECONDS` is how long it takes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_netns::{Bridge, BridgeOptions, Host};
use am_objects::{CallError, Placement, Settings, Shared, Space, Wire, object};

use crate::common::LONG;

const MEMBERS: usize = 8;
/// These crash. What is kept is never kept there.
const MORTAL: std::ops::Range<usize> = 5..MEMBERS;
const THREADS: u64 = 2;
/// A process that crashed is put out after this time. Those that crash live longer: with processes that crash and come faster, the dead would be a majority.
const PATIENCE: Duration = Duration::from_secs(4);

/// Counts the writes of each thread.
#[derive(Default, Wire)]
struct Ledger {
    counts: BTreeMap<u64, u64>,
    total: u64,
    /// Writes that came twice, or too early.
    out_of_order: u64,
}

#[object]
impl Ledger {
    /// The thread's `nth` write.
    #[write]
    fn add(&mut self, thread: u64, nth: u64) -> u64 {
        let count = self.counts.entry(thread).or_default();
        self.out_of_order += u64::from(*count + 1 != nth);
        *count += 1;
        self.total += 1;
        self.total
    }

    #[read]
    fn count(&self, thread: u64) -> u64 {
        self.counts.get(&thread).copied().unwrap_or_default()
    }

    #[read]
    fn total(&self) -> u64 {
        self.total
    }

    #[read]
    fn out_of_order(&self) -> u64 {
        self.out_of_order
    }
}

/// What all threads have seen.
#[derive(Default)]
struct World {
    done: AtomicU64,
    unknown: AtomicU64,
    reads: AtomicU64,
    moves: AtomicU64,
    joins: AtomicU64,
    is_over: AtomicBool,
}

/// No two threads, of processes that came one after the other either, have one number.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Call until the world or the space is over.
fn work(world: &World, ledger: &Shared<Ledger>, is_alive: &AtomicBool) {
    let (me, mut written, mut seen) = (NEXT.fetch_add(1, SeqCst), 0, 0);
    let mut random = me;
    while !world.is_over.load(SeqCst) && is_alive.load(SeqCst) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let total = match random >> 60 {
            0..8 => {
                let added = ledger.write().add(me, written + 1);
                match added.wait() {
                    Ok(total) => {
                        world.done.fetch_add(1, SeqCst);
                        written += 1;
                        Ok(total)
                    }
                    // It may have run: the next one would have its number.
                    Err(CallError::Unknown | CallError::Ended) => {
                        world.unknown.fetch_add(1, SeqCst);
                        return;
                    }
                    Err(why) => Err(why),
                }
            }
            8..12 => {
                let count = ledger.read().count(me).wait();
                assert!(
                    count.is_err() || count == Ok(written),
                    "thread {me} has written {written}, and reads {count:?}"
                );
                let twice = ledger.read().out_of_order().wait();
                assert!(twice.is_err() || twice == Ok(0), "{twice:?} writes came twice, or too early");
                ledger.read().total().wait()
            }
            _ => {
                let before = world.done.load(SeqCst);
                let latest = ledger.read_latest().wait().and_then(|reads| reads.total().wait());
                assert!(
                    latest.is_err() || latest.is_ok_and(|latest| latest >= before),
                    "{before} writes were done, and the latest read has {latest:?}"
                );
                latest
            }
        };
        match total {
            Ok(total) => {
                assert!(total >= seen, "thread {me} has seen {seen}, and reads {total}");
                seen = total;
                world.reads.fetch_add(1, SeqCst);
            }
            Err(CallError::Ended | CallError::Unknown | CallError::NotRun | CallError::Full(_)) => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(why) => panic!("thread {me}: {why}"),
        }
        // Two processors have sixteen threads and eight nodes.
        thread::sleep(Duration::from_micros(200));
    }
}

/// `None`: the world is over before.
fn join(world: &World, number: usize, run: u64) -> Option<(Space, Shared<Ledger>)> {
    // A queue whose process crashed is in use until the kernel has released it: on a busy machine that took more than 20 s.
    let (name, end) = (format!("m{number}-{run}"), Instant::now() + 4 * LONG);
    let node = loop {
        match Node::open(&name, "xdp:am0") {
            Ok(node) => break node,
            Err(_) if world.is_over.load(SeqCst) => return None,
            Err(why) => assert!(Instant::now() < end, "{why}"),
        }
    };
    let settings = Settings { patience: PATIENCE, ..Settings::default() };
    let builder = Space::builder(&node).object::<Ledger>().settings(settings);
    let mut space = if number == 0 { builder.found("lab") } else { builder.join("lab", &["m0-0"]) }.expect("a name");
    if number == 0 {
        let ledger = space.create("ledger", &Ledger::default()).expect("alone it is a majority");
        return Some((space, ledger));
    }
    let is_over = || world.is_over.load(SeqCst);
    let is_there = |space: &Space| is_over() || space.open::<Ledger>("ledger").is_some();
    assert!(space.wait_until(LONG, is_there), "{:?}", space.health());
    let ledger = space.open("ledger").filter(|_| !is_over())?.expect("its type");
    Some((space, ledger))
}

/// A process with its threads, for this time at most. It crashes, or leaves at the end of the world.
fn live(world: &World, number: usize, run: u64, until: Option<Instant>) {
    let Some((mut space, ledger)) = join(world, number, run) else { return };
    world.joins.fetch_add(1, SeqCst);
    let (is_alive, mut moves_at) = (AtomicBool::new(true), Instant::now() + Duration::from_millis(300));
    let places = [Placement::At("m1-0"), Placement::Replicated, Placement::At("m2-0"), Placement::At("m0-0")];
    thread::scope(|scope| {
        (0..THREADS).for_each(|_| _ = scope.spawn(|| work(world, &ledger, &is_alive)));
        while !world.is_over.load(SeqCst) && until.is_none_or(|until| Instant::now() < until) && space.ended().is_none()
        {
            space.wait(Duration::from_millis(20));
            if number == 0 && moves_at < Instant::now() {
                let nth = world.moves.fetch_add(1, SeqCst) as usize;
                // It may be under way still when the next one begins.
                drop(space.place(&ledger, places[nth % places.len()]));
                moves_at = Instant::now() + Duration::from_millis(300);
            }
        }
        is_alive.store(false, SeqCst);
        // The threads' calls end with the space.
        drop(space);
    });
}

fn member(world: &World, number: usize, end: Instant) {
    let mut run = 0;
    while Instant::now() < end {
        let lives = PATIENCE + Duration::from_millis(1000 + 700 * (number as u64).saturating_sub(4) + 300 * (run % 4));
        let until = MORTAL.contains(&number).then(|| Instant::now() + lives);
        live(world, number, run, until.filter(|until| *until < end));
        run += 1;
    }
}

#[test]
fn threads_of_eight_hosts_see_one_ledger() {
    let seconds = std::env::var("AM_BRIDGE_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(15);
    let hosts: Vec<Host> = (0..MEMBERS).map(|number| Host::new(&format!("l{number}")).expect("a host")).collect();
    let _bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).expect("a bridge");
    let (world, end) = (World::default(), Instant::now() + Duration::from_secs(seconds));
    thread::scope(|scope| {
        for (number, host) in hosts.iter().enumerate() {
            let (host, world) = (host.clone(), &world);
            scope.spawn(move || host.enter(|| member(world, number, end)).expect("a host"));
        }
        thread::sleep(end.saturating_duration_since(Instant::now()));
        world.is_over.store(true, SeqCst);
    });
    let of = |count: &AtomicU64| count.load(SeqCst);
    let World { done, unknown, reads, moves, joins, .. } = &world;
    let text = format!(
        "{} writes done, {} unknown, {} results, {} moves, {} joins in {seconds} s",
        of(done),
        of(unknown),
        of(reads),
        of(moves),
        of(joins)
    );
    println!("{text}");
    assert!(of(done) > 20 * seconds && of(joins) > MEMBERS as u64 && of(moves) > seconds, "{text}");
}
