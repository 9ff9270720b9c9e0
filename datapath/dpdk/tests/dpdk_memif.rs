//! Two ports in one process, joined by memif's shared memory. Needs DPDK, but no rights and no huge pages.

mod ends;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use allocation_counter::measure;
use dpdk::raw::{BATCH, Raw};
use dpdk::{Options, Pages};
use ends::{alone, eventually, fresh, memif, open};
use transport::conformance;

#[test]
fn memif_passes() {
    let _alone = alone();
    let report = conformance::run(|| memif(""), |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn bare_frames_go_there_and_back() {
    let _alone = alone();
    let socket = fresh();
    let open = |role: &str, port: u8| {
        let options = Options::new(format!("net_memif{port},role={role},socket=@am-{socket}"));
        Raw::open(&Options { pages: Pages::Normal, ..options }).unwrap_or_else(|error| panic!("{error}"))
    };
    let (mut near, mut far) = (open("server", 0), open("client", 1));
    eventually("both are up", || {
        far.receive(&mut |_| false);
        near.is_up() && far.is_up()
    });
    near.write(&[7; 60]).unwrap();
    let (mut sent, mut back) = (0, 0);
    while sent < 10_000 {
        sent += near.send(BATCH);
        far.receive(&mut |bytes| {
            assert_eq!(bytes, [7; 60]);
            true
        });
        near.receive(&mut |bytes| {
            back += usize::from(bytes == [7; 60]);
            false
        });
    }
    eventually("all are back", || {
        far.receive(&mut |_| true);
        near.receive(&mut |_| {
            back += 1;
            false
        });
        back == sent
    });
}

#[test]
fn two_ends_that_close_at_once_do_no_harm() {
    let _alone = alone();
    for _ in 0..20 {
        let socket = fresh();
        let server = open(&format!("net_memif0,role=server,socket=@am-{socket},am.pages=normal")).unwrap();
        let up = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let client = open(&format!("net_memif1,role=client,socket=@am-{socket}")).unwrap();
                eventually("the client is up", || client.is_up());
                up.store(true, Relaxed);
            });
            eventually("both are up", || up.load(Relaxed));
            drop(server);
        });
    }
}
