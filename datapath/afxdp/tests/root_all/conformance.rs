//! The suite that every transport passes, over a cable between two hosts. Needs root.

use crate::pair::Cable;
use allocation_counter::measure;
use am_afxdp::{Xdp, XdpOptions};
use am_netns::VethOptions;
use am_transport::Transport;
use am_transport::conformance::{self, Pair};
use am_transport::faulty::{Faults, Faulty};

fn passes<T: Transport + 'static>(options: &VethOptions<'_>, mut wrap: impl FnMut(Xdp) -> T) {
    let over_a_cable = || {
        let cable = Cable::new(options);
        let [near, far] = [0, 1].map(|end| wrap(cable.open(end, &XdpOptions::new("am0")).unwrap()));
        Pair::new(near, far).keeping(cable)
    };
    let report = conformance::run(over_a_cable, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn afxdp_passes() {
    passes(&VethOptions::default(), |xdp| xdp);
}

#[test]
fn afxdp_passes_with_long_frames() {
    passes(&VethOptions { mtu: 3800, ..VethOptions::default() }, |xdp| xdp);
}

/// Among its frames are some of each number of chunks.
#[test]
fn afxdp_passes_with_frames_of_sixteen_chunks() {
    passes(&VethOptions { mtu: 65000, ..VethOptions::default() }, |xdp| xdp);
}

#[test]
fn afxdp_passes_on_a_bad_cable() {
    let mut seed = 0;
    passes(&VethOptions::default(), |xdp| {
        seed += 1;
        Faulty::new(xdp, Faults { corrupt: 0.05, delay: 0.1, ..Faults::lossy(seed, 0.05) })
    });
}
