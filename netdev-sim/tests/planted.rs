//! Bugs on purpose, each caught by the checker that it is for.
//!
//! A bug does not show in every run: each has some hundred seeds, with work that
//! brings it out.

mod nodes;

use netdev_sim::{MS, Options, US};
use nodes::{Work, World};
use proto::FramingChoice;
use proto::planted::{Bug, plant};
use wire::Framing;

/// The seeds that a bug is given to show itself to its checker.
const SEEDS: u64 = 600;

/// The first run of which a checker says that.
fn caught(bug: Option<Bug>, seeds: u64, says: &str, setting: impl Fn(u64) -> (Options, Work)) -> Option<(u64, String)> {
    plant(bug);
    let found = (0..seeds).find_map(|seed| {
        let (options, work) = setting(seed);
        let violation = World::new(options, work).run().err()?.to_string();
        violation.contains(says).then_some((seed, violation))
    });
    plant(None);
    found
}

fn mixed(seed: u64) -> (Options, Work) {
    (Options::from_seed(seed), Work::from_seed(seed))
}

/// Nodes that start again at once, while frames of their earlier run are under way.
fn restarts(seed: u64) -> (Options, Work) {
    let mut options = Options::from_seed(seed);
    (options.loss, options.reorder, options.reorder_by) = (0.05, 0.3, 10 * MS);
    options.stalls.clear();
    options.partitions.clear();
    let at = |n| options.faults_until * n / 8;
    options.deaths = (1..8)
        .map(|n| (n as usize % options.nodes, at(n)))
        .map(|(node, at)| netdev_sim::Death { node, at, restart: Some(at + 50 * US) })
        .collect();
    let mut work = Work::from_seed(seed);
    (work.first_number, work.window, work.pause) = (Some(u32::MAX - 3), 32, 300 * US);
    (work.extract, work.requests) = (usize::MAX, 200);
    // Bare frames say nothing of the run that they are for: only their flow ids differ.
    work.framing = FramingChoice::Fixed([Framing::Split, Framing::Plain][seed as usize % 2]);
    (options, work)
}

/// Windows of few messages, taken by busy applications, and news that gets lost.
fn small_windows(seed: u64) -> (Options, Work) {
    let (mut options, mut work) = mixed(seed);
    options.loss = 0.1;
    (work.window, work.extract, work.rest) = (1 + seed as u16 % 4, 2, 300 * US);
    (options, work)
}

/// More senders than there is room for, and busy receivers.
fn no_room(seed: u64) -> (Options, Work) {
    let (options, mut work) = mixed(seed);
    (work.receive_frames, work.flows, work.extract, work.rest) = (8, 4, 1, 300 * US);
    (options, work)
}

/// Numbers that wrap soon, and frames that come twice.
fn wraps(seed: u64) -> (Options, Work) {
    let (mut options, mut work) = mixed(seed);
    options.duplicate = 0.1;
    work.first_number = Some(u32::MAX - 5);
    (options, work)
}

fn early(seed: u64) -> (Options, Work) {
    let (options, work) = mixed(seed);
    (Options { frees_early: true, completion_delay: 20 * US, ..options }, work)
}

#[test]
fn each_planted_bug_is_caught_by_its_checker() {
    type Setting = fn(u64) -> (Options, Work);
    let bugs: [(&str, Option<Bug>, Setting, &str); 7] = [
        ("a credit leak", Some(Bug::CreditLeak), mixed, "credits: "),
        ("a duplicate delivered after wrap-around", Some(Bug::DuplicateAfterWrap), wraps, "delivered twice"),
        ("a lost reject", Some(Bug::LostReject), no_room, "liveness: "),
        ("a sender that waits for company for ever", Some(Bug::WaitsForCompany), mixed, "liveness: "),
        ("a frame freed while the NIC has it", None, early, "frames: "),
        ("an acknowledgement for the wrong incarnation", Some(Bug::OtherIncarnation), restarts, "kept: "),
        ("the last message told while there is no credit", Some(Bug::LastIsTold), small_windows, "endings: "),
    ];
    for (what, bug, setting, says) in bugs {
        let found = caught(bug, SEEDS, says, setting);
        let (seed, why) = found.unwrap_or_else(|| panic!("{what}: no `{says}` in {SEEDS} seeds"));
        println!("{what}: seed {seed}: {why}");
    }
}

#[test]
fn without_a_bug_the_same_runs_keep_all_promises() {
    for setting in [restarts, small_windows, no_room, wraps] {
        assert_eq!(caught(None, SEEDS / 4, "", setting), None);
    }
}
