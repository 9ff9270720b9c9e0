//! Many networks, each from its seed, each with all checkers on.
//!
//! `NETDEV_SIM_SEEDS=FROM..TO` runs those; `NETDEV_SIM_SEED=N` one of them,
//! and with `NETDEV_SIM_PCAP=FILE` writes what passed its switch.

mod nodes;

use std::env;
use std::ops::Range;

use netdev_sim::Options;
use nodes::{Report, Work, World};

/// As many as take well under a minute; `scripts/soak` runs more.
const SEEDS: Range<u64> = 0..10_000;

fn asked_for() -> Range<u64> {
    let Ok(text) = env::var("NETDEV_SIM_SEEDS") else { return SEEDS };
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.expect("NETDEV_SIM_SEEDS=FROM..TO, two numbers")
}

#[test]
fn every_seed_keeps_all_promises() {
    let seeds = asked_for();
    let tally = nodes::many(seeds, &|_, _| ());
    println!("{} messages delivered, {} returned", tally.delivered, tally.returned);
    println!("{}", tally.line());
    let first: Vec<&str> = tally.failed.iter().take(10).map(|(_, why)| why.as_str()).collect();
    assert!(first.is_empty(), "{}\n{}", tally.line(), first.join("\n"));
    assert!(tally.delivered > 10 * tally.seeds && tally.returned > 0, "hardly anything was sent");
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
