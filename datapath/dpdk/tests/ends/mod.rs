//! Two ports that are joined, in one process.

#![allow(dead_code)] // each test uses a part

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use am_dpdk::{Dpdk, DpdkOpenError, DpdkOptions};
use am_transport::conformance::Pair;
use am_transport::{Transport, TransportName};

const PATIENCE: Duration = Duration::from_secs(30);

/// One test at a time: DPDK is one a process, and so are the names of its devices.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Open what a user names so.
pub(crate) fn open(rest: &str) -> Result<Dpdk, DpdkOpenError> {
    let name: TransportName = format!("dpdk:{rest}").parse().unwrap();
    am_dpdk::open(&DpdkOptions::of(&name).unwrap_or_else(|error| panic!("{error}")))
}

/// A number that no other pair of this machine has.
pub(crate) fn fresh() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed))
}

/// Wait until both see each other.
pub(crate) fn joined(mut near: Dpdk, mut far: Dpdk) -> [Dpdk; 2] {
    let deadline = Instant::now() + PATIENCE;
    while !near.is_up() || !far.is_up() {
        near.flush();
        far.flush();
        near.receive(64, &mut |_| ());
        far.receive(64, &mut |_| ());
        assert!(Instant::now() < deadline, "the two do not find each other within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    [near, far]
}

/// Two ports of memif, with these settings besides.
pub(crate) fn memif_ends(settings: &str) -> [Dpdk; 2] {
    let socket = fresh();
    let open = |rest: String| open(&rest).unwrap_or_else(|error| panic!("{rest}: {error}"));
    let near = open(format!("net_memif0,role=server,socket=@am-{socket},am.pages=normal{settings}"));
    let far = open(format!("net_memif1,role=client,socket=@am-{socket}{settings}"));
    joined(near, far)
}

/// The same as a pair for the suite.
pub(crate) fn memif(settings: &str) -> Pair {
    let [near, far] = memif_ends(settings);
    Pair::new(near, far)
}

/// A counter of a transport.
pub(crate) fn counter(end: &dyn Transport, name: &str) -> u64 {
    let mut found = None;
    end.counters(&mut |counter, value| {
        if counter == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no counter is called {name}"))
}

pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
