//! The conformance suite, on live networks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use am_netdev_sim::live::{self, SimSettings};
use am_transport::conformance::{self, Pair};

fn allocations(run: &mut dyn FnMut()) -> u64 {
    allocation_counter::measure(run).count_total
}

/// Two nodes of a network of their own.
fn pair(settings: &SimSettings) -> Pair {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    let settings = SimSettings { seed: NEXT.fetch_add(1, Relaxed), ..settings.clone() };
    let open = || live::open(&settings).unwrap_or_else(|error| panic!("{error}"));
    Pair::new(open(), open())
}

#[test]
fn without_faults() {
    conformance::run(|| pair(&SimSettings::default()), allocations).assert_passed();
}

#[test]
fn with_all_faults() {
    let (some, often) = (Some(0.01), Some(0.05));
    let bad = SimSettings { loss: often, duplicate: often, reorder: often, corrupt: some, ..SimSettings::default() };
    conformance::run(|| pair(&bad), allocations).assert_passed();
}

#[test]
fn with_long_frames_on_a_slow_network() {
    let slow =
        SimSettings { frame: Some(9014), rate: Some(1_000_000_000), delay: Some(100_000), ..SimSettings::default() };
    conformance::run(|| pair(&slow), allocations).assert_passed();
}
