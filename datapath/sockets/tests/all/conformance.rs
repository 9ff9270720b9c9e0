//! The suite that every transport passes, over loopback.

use crate::ends::{connected_pair, tcp_pair, udp_pair};
use allocation_counter::measure;
use am_sockets::{Tcp, Udp};
use am_transport::conformance::{self, Pair};
use am_transport::faulty::{Faults, Faulty};
use am_transport::{Transport, TransportExt};

fn passes<T: Transport + 'static>(mut open: impl FnMut() -> [T; 2]) {
    let pair = || {
        let [near, far] = open();
        Pair::new(near, far)
    };
    let report = conformance::run(pair, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}

/// No flow is open: the suite opens its own.
fn closed(name: &str) -> [Udp; 2] {
    let mut ends = udp_pair(name);
    ends.iter_mut().for_each(|end| end.steer(crate::ends::FLOW, false));
    ends
}

#[test]
fn udp_passes() {
    passes(|| closed("udp:127.0.0.1:0"));
}

#[test]
fn udp_passes_over_ipv6() {
    passes(|| closed("udp:[::1]:0"));
}

#[test]
fn udp_passes_without_gso_and_gro() {
    passes(|| closed("udp:127.0.0.1:0,gso=off,gro=off"));
}

#[test]
fn udp_passes_where_only_one_side_has_them() {
    for [near, far] in [["gso=off", "gro=off"], ["gro=off", "gso=off"]] {
        passes(|| {
            let mut ends = [closed(&format!("udp:127.0.0.1:0,{near}")), closed(&format!("udp:127.0.0.1:0,{far}"))]
                .map(|[end, _]| end);
            let places = [0, 1].map(|end| crate::ends::place(&ends[end]));
            ends[0].add_peer(&places[1]).unwrap();
            ends[1].add_peer(&places[0]).unwrap();
            ends
        });
    }
}

/// Each is connected to the other.
#[test]
fn udp_passes_connected() {
    for host in ["127.44.0.1", "[::1]"] {
        passes(|| {
            let mut ends = connected_pair(host);
            ends.iter_mut().for_each(|end| end.steer(crate::ends::FLOW, false));
            ends
        });
    }
}

#[test]
fn udp_passes_with_the_longest_frames() {
    passes(|| closed("udp:127.0.0.1:0,frame=65507"));
    passes(|| closed("udp:[::1]:0,frame=65487"));
}

#[test]
fn udp_passes_with_short_frames() {
    passes(|| closed("udp:127.0.0.1:0,frame=300"));
}

#[test]
fn udp_passes_on_a_bad_link() {
    let mut seed = 0;
    passes(|| {
        closed("udp:127.0.0.1:0").map(|end| {
            seed += 1;
            Faulty::new(end, Faults { corrupt: 0.05, delay: 0.1, ..Faults::lossy(seed, 0.05) })
        })
    });
}

fn closed_tcp(name: &str, introduce: usize) -> [Tcp; 2] {
    let mut ends = tcp_pair(name, introduce);
    ends.iter_mut().for_each(|end| end.steer(crate::ends::FLOW, false));
    ends
}

#[test]
fn tcp_passes() {
    passes(|| closed_tcp("tcp:127.0.0.1:0", 1));
}

#[test]
fn tcp_passes_over_ipv6_when_both_have_introduced_the_other() {
    passes(|| closed_tcp("tcp:[::1]:0", 2));
}

#[test]
fn tcp_passes_with_short_frames_and_small_buffers() {
    passes(|| closed_tcp("tcp:127.0.0.1:0,frame=1514,buffer=5000", 1));
}

#[test]
fn tcp_passes_on_a_bad_link() {
    let mut seed = 0;
    passes(|| {
        closed_tcp("tcp:127.0.0.1:0", 1).map(|end| {
            seed += 1;
            Faulty::new(end, Faults { corrupt: 0.05, delay: 0.1, ..Faults::lossy(seed, 0.05) })
        })
    });
}
