//! Memifs that are opened and closed again and again, with what is on its way: nothing of them is kept. Needs DPDK.

mod ends;

use am_dpdk::{Dpdk, DpdkOpenError};
use am_transport::Transport;
use am_wire::Address;
use ends::{fresh, joined, open};

/// Memory for three such devices, of which two are open at a time: one that is kept is one too many.
const MEMORY: &str = "am.pages=normal,am.memory=32,am.frames=4096";
const TIMES: usize = 50;

fn end(port: usize, role: &str, socket: &str) -> Result<Dpdk, DpdkOpenError> {
    open(&format!("net_memif{port},role={role},socket=@am-{socket},{MEMORY}"))
}

/// Frames under way in both directions, some of them fetched.
fn load(ends: &mut [Dpdk; 2]) {
    for end in &mut *ends {
        for _ in 0..100 {
            let frame = end.caps().pool.copy(&[0; 100]).expect("the pool is not empty");
            assert!(end.send(Address::BROADCAST, &frame), "the queue is not full");
        }
        end.flush();
    }
    let [near, far] = ends;
    near.receive(10, &mut drop);
    far.receive(1000, &mut drop);
}

#[test]
fn fifty_opens_take_no_more_memory_than_one() {
    for time in 0..TIMES {
        let socket = fresh();
        // Always other devices, and either end goes first.
        let [near, far] = [(2 * time, "server"), (2 * time + 1, "client")]
            .map(|(port, role)| end(port, role, &socket).unwrap_or_else(|error| panic!("{time}: {error}")));
        let mut ends = joined(near, far);
        load(&mut ends);
        let kept = ends[0].caps().pool.copy(&[1; 60]);
        let [near, far] = ends;
        if time % 2 == 0 {
            drop((near, far))
        } else {
            drop((far, near))
        }
        // A frame may outlive the device that it came from.
        assert!(kept.is_some());
        // To one nobody comes, and another finds nobody.
        assert!(end(0, "server", &fresh()).is_ok() && end(0, "client", &fresh()).is_err());
    }
}
