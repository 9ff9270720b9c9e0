//! Many networks, each from its seed, each with all checkers.
//!
//! `NETDEV_SIM_SEEDS=FROM..TO` chooses the seeds. `NETDEV_SIM_SEED=N` chooses the one seed of `one_seed`, and
//! `NETDEV_SIM_PCAP=FILE` captures the frames that reach its switch. `NETDEV_SIM_SETTING` and `NETDEV_SIM_PLANT` choose
//! its setting and its mutant; `nodes/cases.rs` has their names.

use std::env;
use std::ops::Range;
use std::process::Command;

use crate::nodes::{CAUGHT, Case, Caught, Report, caught};

/// These take well under a minute. `scripts/soak` runs more.
const SEEDS: Range<u64> = 0..4_000;

fn asked_for() -> Range<u64> {
    let Ok(text) = env::var("NETDEV_SIM_SEEDS") else { return SEEDS };
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.expect("NETDEV_SIM_SEEDS=FROM..TO, two numbers")
}

#[test]
fn every_seed_keeps_all_promises() {
    let seeds = asked_for();
    let tally = crate::nodes::many(seeds, &|_, _| ());
    println!("{} messages delivered, {} returned", tally.delivered, tally.returned);
    println!("{}", tally.line());
    let first: Vec<&str> = tally.failed.iter().take(10).map(|(_, why)| why.as_str()).collect();
    assert!(first.is_empty(), "{}\n{}", tally.line(), first.join("\n"));
    assert!(tally.delivered > 10 * tally.seeds && tally.returned > 0, "hardly anything was sent");
}

#[test]
fn one_seed() {
    let case = Case::of(|variable| env::var(variable).ok());
    let mut world = case.world();
    println!("{:#?}", case.draw());
    world.net.start_capture();
    let result = world.run();
    let capture = world.net.capture().map(|capture| capture.bytes()).unwrap_or_default();
    if let Ok(file) = env::var("NETDEV_SIM_PCAP") {
        std::fs::write(&file, capture).expect("NETDEV_SIM_PCAP is a file that can be written");
    }
    let captured = capture.len();
    println!("at {} µs: {result:?}\n{:#?}", world.net.now() / 1000, world.seen());
    result.unwrap_or_else(|violation| panic!("{}", case.failed(&violation)));
    assert!(captured > 24, "frames were captured");
}

/// The command that a failing run prints is run as it is, for every checker. The same run fails in the same way.
#[test]
fn a_failing_run_prints_the_line_that_repeats_it() {
    const COMMAND: &str = " cargo test -p am-netdev-sim --test networks ";
    for Caught { what, planted, setting, says } in CAUGHT {
        let (_, why) = caught(planted, setting, says).unwrap_or_else(|| panic!("{what}: no `{says}`"));
        let (violation, line) = why.rsplit_once('\n').expect("a line of its own");
        let (variables, arguments) = line.trim().split_once(COMMAND).expect("variables, and this test");
        // Cargo would run this test program with these arguments.
        let mut again = Command::new(env::current_exe().expect("this test"));
        again.args(arguments.split(' ').filter(|argument| *argument != "--"));
        again.envs(variables.split(' ').filter_map(|variable| variable.split_once('=')));
        let output = again.output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        assert!(!output.status.success() && output.status.code().is_some(), "{what}: {line}");
        assert!(String::from_utf8_lossy(&said).contains(violation), "{what}: not again: {why}");
    }
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..20 {
        let twice: [Option<Report>; 2] = [(); 2].map(|()| crate::nodes::run(seed).ok());
        assert_eq!(twice[0], twice[1], "seed {seed}");
    }
}
