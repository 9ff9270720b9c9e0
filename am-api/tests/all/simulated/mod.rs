//! Whole nodes on a simulated network: messages kept, prepared and answered
//! late, bulk transfers, connections and endpoints that close and open again,
//! under every fault that `netdev-sim` has. Each run follows from its seed.
//!
//! `AM_SIM_SEEDS=FROM..TO` runs those; `AM_SIM_SEED=N` one of them.

mod app;
mod node;
mod seen;
mod transfers;
mod work;
mod world;

use std::env;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use am_netdev_sim::NetOptions;
use seen::Seen;
use work::Work;
use world::World;

const SEEDS: Range<u64> = 0..500;

/// All of these happen in some run.
const SEEN: &[&str] = &[
    "put",
    "got",
    "deposited",
    "served",
    "transfer lost",
    "cancelled",
    "kept beyond its handler",
    "prepared and committed",
    "no credit",
    "closed",
    "closed by who had accepted",
    "ended by another",
    "too late: the connection had ended",
    "endpoint closed and opened again",
    "returned to its sender",
    "died",
    "restarted",
    "bundles_received",
    "rejected_resent",
    "fast_retransmits",
    "timeouts",
];

fn run(seed: u64, options: NetOptions) -> Result<Seen, String> {
    World::new(options, Work::from_seed(seed)).run().map_err(|violation| {
        let line = format!(
            "AM_SIM_SEED={seed} cargo test -p active-messages --test all simulated::one_seed -- --exact --nocapture"
        );
        format!("seed {seed}: {violation}\n    {line}")
    })
}

/// A run that panics has failed, and the others go on.
fn survive(seed: u64) -> Result<Seen, String> {
    let result = catch_unwind(AssertUnwindSafe(|| run(seed, NetOptions::from_seed(seed))));
    result.unwrap_or_else(|_| Err(format!("seed {seed}: panic")))
}

fn asked_for() -> Range<u64> {
    let Ok(text) = env::var("AM_SIM_SEEDS") else { return SEEDS };
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.expect("AM_SIM_SEEDS=FROM..TO, two numbers")
}

#[test]
fn every_seed_keeps_all_promises() {
    let seeds = asked_for();
    let (next, all) = (AtomicU64::new(seeds.start), Mutex::new((Seen::new(), vec![])));
    let work = || {
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
            let result = survive(seed);
            let (seen, failed) = &mut *all.lock().expect("nobody panics with it");
            match result {
                Ok(more) => more.iter().for_each(|(name, count)| *seen.entry(name).or_default() += count),
                Err(why) => failed.push((seed, why)),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let (seen, mut failed) = all.into_inner().expect("nobody panicked with it");
    println!("{seen:#?}");
    failed.sort();
    let first: Vec<&str> = failed.iter().take(10).map(|(_, why)| why.as_str()).collect();
    assert!(first.is_empty(), "{} failed\n{}", failed.len(), first.join("\n"));
    let missing: Vec<_> = SEEN.iter().filter(|name| seen.get(**name).is_none_or(|count| *count == 0)).collect();
    assert!(seeds != SEEDS || missing.is_empty(), "in no run: {missing:?}");
}

#[test]
fn one_seed() {
    let seed = env::var("AM_SIM_SEED").map_or(1, |seed| seed.parse().expect("AM_SIM_SEED=N, a number"));
    println!("{:#?}\n{:#?}", NetOptions::from_seed(seed), Work::from_seed(seed));
    let seen = run(seed, NetOptions::from_seed(seed)).unwrap_or_else(|why| panic!("{why}"));
    println!("{seen:#?}");
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..10 {
        assert_eq!(run(seed, NetOptions::from_seed(seed)), run(seed, NetOptions::from_seed(seed)), "seed {seed}");
    }
}

/// Damage that nobody below notices shows in what arrives, and in what is put:
/// the checkers look.
#[test]
fn damage_that_nobody_notices_is_seen() {
    let damaged = |seed| NetOptions { corrupt: 0.05, check: false, ..NetOptions::from_seed(seed) };
    for says in ["is not what was sent", "are not what was sent"] {
        let found = (0..200).filter_map(|seed| run(seed, damaged(seed)).err()).any(|why| why.contains(says));
        assert!(found, "no run says: {says}");
    }
}
