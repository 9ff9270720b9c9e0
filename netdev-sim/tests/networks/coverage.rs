//! The seeds try what they should: in several runs each fault strikes, and each event of the protocol happens.

use std::collections::BTreeMap;

use crate::nodes::Case;

/// In this many runs each event happens often enough. `scripts/test` runs many more.
const SEEDS: u64 = 400;

/// Each event happens in at least this many runs.
const MIN_RUNS: u64 = 4;

const FAULTS: &[&str] = &[
    "link: lost",
    "link: duplicated",
    "link: late",
    "link: early",
    "link: damaged",
    "switch: flooded",
    "switch: full",
    "switch: damaged",
    "switch: parted",
    "switch: forgotten",
    "sim_bounced",
    "sim_starved",
    "sim_rx_full",
    "sim_tx_full",
    "sim_completion_full",
    "sim_late_completions",
    "sim_damaged",
    "sim_misreported",
    "sim_wakeups_lost",
    "steer_drop_unknown_flow",
    "steer_drop_bad_length",
    "steer_pass_other_host",
    "stalled",
    "died",
    "restarted",
];

const PROTOCOL: &[&str] = &[
    "requests_received",
    "replies_received",
    "duplicates",
    "no_room",
    "rejects_sent",
    "rejects_received",
    "rejects_stale",
    "rejected_resent",
    "acks_sent",
    "acks_received",
    "piggybacks_sent",
    "bundles_sent",
    "bundles_received",
    "retransmitted",
    "timeouts",
    "fast_retransmits",
    "spurious_retransmits",
    "returned",
    "control_received",
    "stale_control",
    "numbers wrapped",
    "peer restarted",
    "given up by a sender",
    "refused or not found",
];

const WORK: &[&str] = &[
    "no credit",
    "no slot",
    "kept beyond its handler",
    "prepared and committed",
    "prepared for a flow that ended",
    "closed",
    "closed while connecting",
    "closed by who had accepted",
    "closed by the peer",
    "endpoint closed and opened again",
];

#[test]
fn every_fault_and_event_happens_in_several_runs() {
    let mut runs: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        let case = Case::from(seed);
        let mut world = case.world();
        world.run().unwrap_or_else(|violation| panic!("{}", case.failed(&violation)));
        let seen = world.seen();
        seen.iter().filter(|(_, count)| **count > 0).for_each(|(name, _)| *runs.entry(name).or_default() += 1);
    }
    println!("what happened, and in how many of {SEEDS} runs: {runs:#?}");
    let missing = |name: &&&str| runs.get(**name).is_none_or(|count| *count < MIN_RUNS);
    let missing: Vec<_> = [FAULTS, PROTOCOL, WORK].into_iter().flatten().filter(missing).collect();
    assert!(missing.is_empty(), "in fewer than {MIN_RUNS} of {SEEDS} runs: {missing:?}");
}
