//! Whole nodes on a simulated network: messages kept, prepared and answered
//! late, bulk transfers, connections and endpoints that close and open again,
//! under every fault that `netdev-sim` has. Each run follows from its seed.
//!
//! `AM_SIM_SEEDS=FROM..TO` runs those; `AM_SIM_SEED=N` one of them.

mod app;
mod node;
mod reading;
mod seen;
mod transfers;
mod work;
mod world;

use std::env;
use std::ops::Range;

use am_netdev_sim::NetOptions;
use am_netdev_sim::check::seeds;
use am_proto::mutants::{Mutant, activate};
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
    "long",
    "long_waited",
    "long_evicted",
    "placed",
    "bulk_lent",
    "bulk_unreadable",
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
    let run = World::new(options, Work::from_seed(seed)).run();
    run.map_err(|violation| format!("seed {seed}: {violation}\n    {}", repeat_command(seed)))
}

fn repeat_command(seed: u64) -> String {
    format!("AM_SIM_SEED={seed} cargo test -p am-api-tests simulated::one_seed -- --exact --nocapture")
}

#[test]
fn every_seed_keeps_all_promises() {
    let (seeds, mut seen) = (seeds::asked_for("AM_SIM_SEEDS", SEEDS), Seen::new());
    let run = |seed| run(seed, NetOptions::from_seed(seed));
    let failed = seeds::run_all(seeds.clone(), run, repeat_command, |result| {
        result.iter().flatten().for_each(|(name, count)| *seen.entry(name).or_default() += count);
    });
    println!("{seen:#?}");
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

/// The checkers look at each segment: it arrives once, unchanged, and in its own message.
#[test]
fn planted_bugs_of_long_messages_are_found() {
    let bugs = [
        (Mutant::SegmentLost, "is not what was sent"),
        (Mutant::SegmentOfAnother, "is not what was sent"),
        (Mutant::LongTwice, "arrived after"),
    ];
    for (bug, says) in bugs {
        activate(Some(bug));
        let found =
            (0..300).filter_map(|seed| run(seed, NetOptions::from_seed(seed)).err()).any(|why| why.contains(says));
        activate(None);
        assert!(found, "{bug:?}: no run says: {says}");
    }
}
