//! Many networks, each from its seed, each with all checkers on.
//!
//! `NETDEV_SIM_SEEDS=FROM..TO` runs those; `NETDEV_SIM_SEED=N` one of them,
//! and with `NETDEV_SIM_PCAP=FILE` writes what passed its switch.

mod nodes;

use std::env;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use netdev_sim::Options;
use nodes::{Report, Work, World};

/// As many as take a few seconds.
const SEEDS: Range<u64> = 0..2000;

fn asked_for() -> Range<u64> {
    let Ok(text) = env::var("NETDEV_SIM_SEEDS") else { return SEEDS };
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.expect("NETDEV_SIM_SEEDS=FROM..TO, two numbers")
}

#[test]
fn every_seed_keeps_all_promises() {
    let (seeds, begin) = (asked_for(), Instant::now());
    let next = AtomicU64::new(seeds.start);
    let work = || -> (Vec<String>, u64, u64) {
        let (mut failed, mut delivered, mut returned) = (vec![], 0, 0);
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
            match nodes::run(seed) {
                Ok(report) => (delivered, returned) = (delivered + report.delivered, returned + report.returned),
                Err(why) => failed.push(why),
            }
        }
        (failed, delivered, returned)
    };
    let both = thread::scope(|scope| [scope.spawn(work), scope.spawn(work)].map(|thread| thread.join().unwrap()));
    let seconds = begin.elapsed().as_secs_f64();
    let count = seeds.end - seeds.start;
    let [delivered, returned] = [both[0].1 + both[1].1, both[0].2 + both[1].2];
    println!("{delivered} messages delivered, {returned} returned");
    println!("{count} seeds in {seconds:.1} s, {:.0} a second", count as f64 / seconds);
    let failed: Vec<&String> = both.iter().flat_map(|(failed, ..)| failed).collect();
    let first: Vec<&str> = failed.iter().take(10).map(|why| why.as_str()).collect();
    assert!(failed.is_empty(), "{} of {count} seeds failed:\n{}", failed.len(), first.join("\n"));
    assert!(delivered > 10 * count && returned > 0, "hardly anything was sent");
}

#[test]
fn one_seed() {
    let seed = env::var("NETDEV_SIM_SEED").map_or(1, |seed| seed.parse().expect("NETDEV_SIM_SEED=N, a number"));
    let mut world = World::new(Options::from_seed(seed), Work::from_seed(seed));
    println!("{:#?}\n{:#?}", world.net.options(), Work::from_seed(seed));
    world.net.start_capture();
    let result = world.run();
    let capture = world.net.capture().map(|capture| capture.bytes()).unwrap_or_default();
    if let Ok(file) = env::var("NETDEV_SIM_PCAP") {
        std::fs::write(&file, capture).expect("NETDEV_SIM_PCAP is a file that can be written");
    }
    println!("at {} µs: {result:?}, {:?}", world.net.now() / 1000, world.net.switch().count());
    assert!(capture.len() > 24, "frames were captured");
    result.unwrap_or_else(|violation| panic!("seed {seed}: {violation}\n    {}", nodes::repeat(seed)));
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..20 {
        let twice: [Option<Report>; 2] = [(); 2].map(|()| nodes::run(seed).ok());
        assert_eq!(twice[0], twice[1], "seed {seed}");
    }
}
