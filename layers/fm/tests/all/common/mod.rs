//! Two nodes of FM with a wire between them, polled in turn by one thread.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::{Duration, Instant};

use am_fm::{Cluster, Fm, Rank};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback;

/// Longer than anything here takes when nothing is wrong.
pub(crate) const LONG: Duration = Duration::from_secs(15);

pub(crate) const NAMES: [&str; 2] = ["alpha", "beta"];

pub(crate) fn cluster(own: usize) -> Cluster {
    Cluster::new(NAMES, Rank(own)).expect("a list of names")
}

/// Node `own` on this end of a wire.
pub(crate) fn open<S>(own: usize, plug: loopback::Plug) -> Fm<S> {
    open_faulty(own, plug, Faults::NONE)
}

/// The same on a wire on which so much goes wrong.
pub(crate) fn open_faulty<S>(own: usize, plug: loopback::Plug, faults: Faults) -> Fm<S> {
    let faults = Faults { seed: faults.seed + own as u64, ..faults };
    let transport = Faulty::new(plug.open().expect("memory"), faults);
    Fm::open(cluster(own), Box::new(transport)).expect("a node")
}

/// Nodes 0 and 1.
pub(crate) fn pair<A, B>() -> (Fm<A>, Fm<B>) {
    let [left, right] = loopback::pair();
    (open(0, left), open(1, right))
}

/// Run node 1 in a thread until the test ends it, and node 0 in this thread. Both get their own end of the wire.
pub(crate) fn against<T>(far: impl FnOnce(loopback::Plug) + Send, near: impl FnOnce(loopback::Plug) -> T) -> T {
    let [left, right] = loopback::pair();
    std::thread::scope(|scope| {
        let there = scope.spawn(|| far(right));
        let result = near(left);
        there.join().expect("node 1");
        result
    })
}

/// Extract until it is so; fails the test when it never is.
pub(crate) fn until<S>(fm: &mut Fm<S>, state: &mut S, what: &str, mut so: impl FnMut(&S) -> bool) {
    let start = Instant::now();
    while !so(state) {
        fm.extract(state);
        std::thread::yield_now();
        assert!(start.elapsed() < LONG, "still not: {what}\n{}", fm.counters());
    }
}
