//! The conformance suite, over one path and over three.

use allocation_counter::measure;
use am_multipath::Multipath;
use am_transport::conformance::{self, Pair};
use am_transport::faulty::{Faults, Faulty};
use am_transport::{Transport, loopback};
use am_wire::EtherType;

fn ends(ways: usize) -> [Multipath; 2] {
    let mut both = [vec![], vec![]];
    for _ in 0..ways {
        for (side, plug) in loopback::pair().into_iter().enumerate() {
            both[side].push(Box::new(plug.open().expect("memory")) as Box<dyn Transport>);
        }
    }
    both.map(|ways| Multipath::new(ways, EtherType::DEFAULT).expect("ways"))
}

fn passes(mut pair: impl FnMut() -> Pair) {
    let report = conformance::run(&mut pair, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn one_path_passes() {
    passes(|| {
        let [near, far] = ends(1);
        Pair::new(near, far)
    });
}

#[test]
fn three_paths_pass() {
    passes(|| {
        let [near, far] = ends(3);
        Pair::new(near, far)
    });
}

#[test]
fn three_lossy_paths_pass() {
    let mut seed = 0;
    passes(|| {
        let [near, far] = ends(3).map(|end| {
            seed += 1;
            Faulty::new(end, Faults::lossy(seed, 0.05))
        });
        Pair::new(near, far)
    });
}
