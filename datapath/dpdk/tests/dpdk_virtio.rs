//! virtio-user and vhost, joined by a socket and shared memory, in one process. Needs DPDK, but no rights.

mod ends;

use crate::ends::{alone, fresh, joined, open};
use allocation_counter::measure;
use am_transport::conformance::{self, Pair};

fn ends() -> Pair {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(fresh());
    let vhost = open(&format!("net_vhost0,iface={},am.pages=normal", path.display()));
    let vhost = vhost.unwrap_or_else(|error| panic!("{error}"));
    let virtio = open(&format!("net_virtio_user0,path={},mac=02:00:00:00:00:07", path.display()));
    let virtio = virtio.unwrap_or_else(|error| panic!("{error}"));
    let [vhost, virtio] = joined(vhost, virtio);
    Pair::new(virtio, vhost).keeping(directory)
}

#[test]
fn virtio_and_vhost_pass() {
    let _alone = alone();
    let report = conformance::run(ends, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}
