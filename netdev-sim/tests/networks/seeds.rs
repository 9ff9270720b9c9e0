//! Many networks, each from its seed, each with all checkers.
//!
//! `NETDEV_SIM_SEEDS=FROM..TO` chooses the seeds. `NETDEV_SIM_SEED=N` chooses the one seed of `one_seed`, and
//! `NETDEV_SIM_PCAP=FILE` captures the frames that reach its switch. `NETDEV_SIM_SETTING` and `NETDEV_SIM_PLANT` choose
//! its setting and its mutant; `nodes/cases.rs` has their names.

use std::env;
use std::ops::Range;

use crate::nodes::{Case, Report};

/// These take a few seconds. `scripts/soak` runs more.
const SEEDS: Range<u64> = 0..1_500;

#[test]
fn every_seed_keeps_all_promises() {
    let seeds = am_netdev_sim::check::seeds::asked_for("NETDEV_SIM_SEEDS", SEEDS);
    let tally = crate::nodes::run_many(seeds, &|_, _| ());
    println!("{} messages delivered, {} returned", tally.delivered, tally.returned);
    println!("{}", tally.line());
    let first: Vec<&str> = tally.failed.iter().take(10).map(|(_, why)| why.as_str()).collect();
    assert!(first.is_empty(), "{}\n{}", tally.line(), first.join("\n"));
    assert!(tally.delivered > 10 * tally.seeds && tally.returned > 0, "hardly anything was sent");
}

#[test]
fn one_seed() {
    let case = Case::from_variables(|variable| env::var(variable).ok());
    let mut world = case.world();
    println!("{:#?}", case.draw());
    world.net.start_capture();
    let result = world.run();
    let capture = world.net.capture().unwrap_or_default();
    if let Ok(file) = env::var("NETDEV_SIM_PCAP") {
        std::fs::write(&file, capture).expect("NETDEV_SIM_PCAP is a file that can be written");
    }
    let captured = capture.len();
    println!("at {} µs: {result:?}\n{:#?}", world.net.now() / 1000, world.seen());
    result.unwrap_or_else(|violation| panic!("{}", case.failed(&violation)));
    assert!(captured > 24, "frames were captured");
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..20 {
        let twice: [Option<Report>; 2] = [(); 2].map(|()| crate::nodes::run(seed).ok());
        assert_eq!(twice[0], twice[1], "seed {seed}");
    }
}
