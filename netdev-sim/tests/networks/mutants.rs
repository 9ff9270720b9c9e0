//! Mutants: bugs built in on purpose. Each is caught by its checker.
//!
//! A mutant does not show in every run. So each gets many seeds, with a setting that brings it out. A caught mutant
//! prints the command that repeats the run.

use std::env;
use std::process::Command;

use crate::nodes::{Case, MUTANT_CASES, MutantCase, RunMutant, Setting, first_caught};

/// Seeds for each setting without a mutant.
const SEEDS_WITHOUT_MUTANT: u64 = 30;

#[test]
fn each_planted_bug_is_caught_by_its_checker() {
    for MutantCase { what, planted, setting, expected } in MUTANT_CASES {
        let (_, why) = first_caught(planted, setting, expected).unwrap_or_else(|| panic!("{what}: no `{expected}`"));
        println!("{what}: {why}");
        is_repeated(what, &why);
    }
}

/// The last line of a failure names the command that repeats the run. This follows it to the letter.
fn is_repeated(what: &str, why: &str) {
    const COMMAND: &str = " cargo test -p am-netdev-sim --test networks ";
    let (violation, line) = why.rsplit_once('\n').expect("a line of its own");
    let (variables, arguments) = line.trim().split_once(COMMAND).expect("variables, and this test");
    // What cargo would run.
    let mut again = Command::new(env::current_exe().expect("this test"));
    again.args(arguments.split(' ').filter(|argument| *argument != "--"));
    again.envs(variables.split(' ').filter_map(|variable| variable.split_once('=')));
    let output = again.output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(!output.status.success() && output.status.code().is_some(), "{what}: {line}");
    assert!(String::from_utf8_lossy(&said).contains(violation), "{what}: not again: {why}");
}

#[test]
fn without_a_bug_the_same_runs_keep_all_promises() {
    for setting in [
        Setting::Restarts,
        Setting::BareRestarts,
        Setting::SmallWindows,
        Setting::NoRoom,
        Setting::Wraps,
        Setting::LateCompletions,
        Setting::SmallSwitch,
        Setting::Drivers,
        Setting::Busy,
    ] {
        for seed in 0..SEEDS_WITHOUT_MUTANT {
            let case = Case { seed, setting, planted: RunMutant::Nothing };
            case.run().unwrap_or_else(|why| panic!("{setting:?}: {why}"));
        }
    }
}
