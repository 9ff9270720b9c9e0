//! The suite that every transport passes, between two members of one segment.

use allocation_counter::measure;
use am_shm::ShmOptions;
use am_transport::conformance::{self, CheckResult, Pair};
use am_transport::faulty::{Faults, Faulty};

fn passes(options: impl Fn(String) -> ShmOptions) -> Vec<&'static str> {
    let dir = tempfile::tempdir().unwrap();
    let mut pairs = 0;
    let make = || {
        pairs += 1;
        let options = ShmOptions { dir: dir.path().into(), ..options(format!("pair{pairs}")) };
        let [near, far] = [0, 1].map(|_| am_shm::open(&options).unwrap());
        Pair::new(near, far)
    };
    let report = conformance::run(make, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "files are left");
    report.checks.iter().filter(|(_, result)| *result == Ok(CheckResult::NotPromised)).map(|(name, _)| *name).collect()
}

#[test]
fn shm_passes_and_promises_everything() {
    assert_eq!(passes(ShmOptions::new), [""; 0]);
}

#[test]
fn shm_passes_with_short_frames_and_many_members() {
    let options = |name| ShmOptions { frame: Some(1514), members: Some(64), ..ShmOptions::new(name) };
    assert_eq!(passes(options), [""; 0]);
}

#[test]
fn shm_passes_with_long_frames() {
    assert_eq!(passes(|name| ShmOptions { frame: Some(65_536), frames: 16_384, ..ShmOptions::new(name) }), [""; 0]);
}

#[test]
fn shm_passes_behind_faults() {
    let dir = tempfile::tempdir().unwrap();
    let mut seed = 0;
    let make = || {
        seed += 1;
        let options = ShmOptions { dir: dir.path().into(), ..ShmOptions::new(format!("pair{seed}")) };
        let [near, far] = [0, 1].map(|end| {
            Faulty::new(am_shm::open(&options).unwrap(), Faults { delay: 0.1, ..Faults::lossy(seed * 2 + end, 0.1) })
        });
        Pair::new(near, far)
    };
    conformance::run(make, |run| measure(run).count_total).assert_passed();
}
