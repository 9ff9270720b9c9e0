//! Every transport of this crate passes the conformance suite.

use allocation_counter::measure;
use am_transport::conformance::{self, CheckResult, Pair, Report};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback::{self, Loopback};
use am_transport::trace::Trace;

fn ends() -> [Loopback; 2] {
    let plugs: [_; 2] = loopback::wire(2).try_into().unwrap();
    plugs.map(|plug| plug.open().unwrap())
}

fn passes(make: impl FnMut() -> Pair) -> Report {
    let report = conformance::run(make, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
    report
}

fn faulty(faults: Faults) -> Pair {
    let [near, far] = ends();
    Pair::new(Faulty::new(near, faults), Faulty::new(far, Faults { seed: !faults.seed, ..faults }))
}

fn not_promised(report: &Report) -> Vec<&str> {
    report.checks.iter().filter(|(_, result)| *result == Ok(CheckResult::NotPromised)).map(|(name, _)| *name).collect()
}

/// The wire in memory has no descriptor to wait on.
const NO_DESCRIPTOR: &str = "a_frame_wakes_a_sleeper";

#[test]
fn loopback_passes_and_promises_all_but_a_descriptor() {
    let report = passes(|| {
        let [near, far] = ends();
        Pair::new(near, far)
    });
    assert_eq!(not_promised(&report), [NO_DESCRIPTOR]);
}

#[test]
fn faulty_without_faults_passes_and_promises_all_but_a_descriptor() {
    assert_eq!(not_promised(&passes(|| faulty(Faults::NONE))), [NO_DESCRIPTOR]);
}

#[test]
fn faulty_with_faults_passes_and_promises_little() {
    let mut seed = 0;
    let report = passes(|| {
        seed += 1;
        faulty(Faults { corrupt: 0.05, delay: 0.1, ..Faults::lossy(seed, 0.1) })
    });
    assert_eq!(not_promised(&report), ["frames_arrive_in_order", "nothing_is_lost_or_doubled", NO_DESCRIPTOR]);
}

#[test]
fn trace_passes() {
    let report = passes(|| {
        let [near, far] = ends();
        Pair::new(Trace::new(near, std::io::sink()).unwrap(), Trace::new(far, std::io::sink()).unwrap())
    });
    assert_eq!(not_promised(&report), [NO_DESCRIPTOR]);
}
