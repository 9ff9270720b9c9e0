//! Damage that the check sequence does not detect. Messages may be lost or changed, because nothing above Ethernet checks
//! their bytes. But no node panics, no frame of a pool is lost, memory stays bounded, and malformed frames are counted by
//! reason.

use crate::nodes::{Work, World};
use am_netdev_sim::NetOptions;

const SEEDS: u64 = 300;

#[test]
fn malformed_frames_are_counted_and_do_no_harm() {
    let mut reasons = std::collections::BTreeMap::new();
    for seed in 0..SEEDS {
        let options = NetOptions { corrupt: 0.1, check: false, ..NetOptions::from_seed(seed) };
        let mut world = World::new(options, Work::from_seed(seed));
        let dropped = world.run_damaged();
        let dropped = dropped.unwrap_or_else(|violation| panic!("seed {seed}, damaged: {violation}"));
        dropped.into_iter().for_each(|(reason, count)| *reasons.entry(reason).or_insert(0) += count);
    }
    reasons.retain(|_, count| *count > 0);
    println!("{reasons:?}");
    assert!(reasons.len() >= 3, "{reasons:?}");
}
