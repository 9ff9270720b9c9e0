//! Two ports in one process, joined by memif's shared memory. Needs DPDK, but no rights and no huge pages.

mod ends;

use allocation_counter::measure;
use ends::{alone, memif};
use transport::conformance;

#[test]
fn memif_passes() {
    let _alone = alone();
    let report = conformance::run(|| memif(""), |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}
