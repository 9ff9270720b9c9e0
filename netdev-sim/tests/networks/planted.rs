//! Mutants: bugs built in on purpose. Each is caught by its checker.
//!
//! A mutant does not show in every run. So each gets many seeds, with a setting that brings it out. A caught mutant
//! prints the command that repeats the run, and `seeds.rs` runs that command.

use crate::nodes::{CAUGHT, Case, Caught, Planted, Setting, caught};

/// Seeds for each setting without a mutant.
const WITHOUT: u64 = 150;

#[test]
fn each_planted_bug_is_caught_by_its_checker() {
    for Caught { what, planted, setting, says } in CAUGHT {
        let (_, why) = caught(planted, setting, says).unwrap_or_else(|| panic!("{what}: no `{says}`"));
        println!("{what}: {why}");
    }
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
    ] {
        for seed in 0..WITHOUT {
            let case = Case { seed, setting, planted: Planted::Nothing };
            case.run().unwrap_or_else(|why| panic!("{setting:?}: {why}"));
        }
    }
}
