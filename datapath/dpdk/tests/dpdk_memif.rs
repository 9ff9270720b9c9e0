//! Two ports in one process, joined by memif's shared memory. Needs DPDK, but no rights and no huge pages.

use am_testing::own_loop;

mod ends;

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::ends::{alone, eventually, fresh, joined, memif, open};
use allocation_counter::measure;
use am_dpdk::raw::{BATCH, Raw};
use am_dpdk::{DpdkOptions, PageKind};
use am_transport::{Transport, conformance};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};

#[test]
fn memif_passes() {
    let _alone = alone();
    let report = conformance::run(|| memif(""), |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}

/// Two ports with nothing above them, both up.
fn bare() -> [Raw; 2] {
    let socket = fresh();
    let open = |role: &str, port: u8| {
        let options = DpdkOptions::new(format!("net_memif{port},role={role},socket=@am-{socket}"));
        Raw::open(&DpdkOptions { pages: PageKind::Normal, ..options }).unwrap_or_else(|error| panic!("{error}"))
    };
    let (near, mut far) = (open("server", 0), open("client", 1));
    eventually("both are up", || {
        let up = near.is_up() && far.is_up();
        // Afterwards: a client gives the buffers that its server sends into when it receives.
        far.receive(BATCH, &mut |_| false);
        up
    });
    [near, far]
}

/// What arrives with one look, by length.
fn lengths(end: &mut Raw, budget: usize) -> Vec<usize> {
    let mut lengths = vec![];
    end.receive(budget, &mut |bytes| {
        lengths.push(bytes.len());
        false
    });
    lengths
}

/// More notes than there are outgoing frames, which are what they were before when they have been notes.
#[test]
fn a_bare_frame_is_written_anew_and_notes_go_between() {
    let _alone = alone();
    let [mut near, mut far] = bare();
    assert_eq!(near.send(1), 0, "nothing was written");
    assert!(near.write(&[7; 2000]).is_err());
    for length in [60, 1514, 64] {
        near.write(&vec![7; length]).unwrap();
        for _ in 0..600 {
            assert!(near.send_control(&[9; 61]).unwrap());
            assert_eq!(near.send(2), 2);
            assert_eq!(lengths(&mut far, 1), [61]);
            assert_eq!(lengths(&mut far, 1), [length], "no more than the budget");
            assert_eq!(lengths(&mut far, BATCH), [length]);
        }
    }
}

#[test]
fn bare_frames_go_there_and_back() {
    let _alone = alone();
    let [mut near, mut far] = bare();
    near.write(&[7; 60]).unwrap();
    let (mut sent, mut back) = (0, 0);
    while sent < 10_000 {
        sent += near.send(BATCH);
        far.receive(BATCH, &mut |bytes| {
            assert_eq!(bytes, [7; 60]);
            true
        });
        near.receive(BATCH, &mut |bytes| {
            back += usize::from(bytes == [7; 60]);
            false
        });
    }
    eventually("all are back", || {
        far.receive(BATCH, &mut |_| true);
        near.receive(BATCH, &mut |_| {
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

/// The driver greets each peer that it accepts. A peer may be gone by then: a client that looks for its server again, or
/// a process that was killed.
#[test]
fn peers_that_leave_before_they_are_greeted_do_no_harm() {
    let _alone = alone();
    let name = format!("@am-{}", fresh());
    let server = open(&format!("net_memif0,role=server,socket={name},am.pages=normal")).unwrap();
    let address = UnixAddr::new_abstract(name.as_bytes()).unwrap();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for _ in 0..500 {
        let peer = socket::socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::empty(), None).unwrap();
        socket::connect(peer.as_raw_fd(), &address).unwrap();
    }
    eventually("the driver has closed its ends", || descriptors() < before + 100);
    let client = open(&format!("net_memif1,role=client,socket={name}")).unwrap();
    joined(server, client);
}

/// A polling driver has no descriptor, so the node's becomes readable by a deadline.
#[test]
fn programs_with_loops_of_their_own_wait_for_a_deadline() {
    let _alone = alone();
    // DPDK 22.11 keeps a listener until the process ends: each pair has a name of its own.
    let sockets = [fresh(), fresh(), fresh()];
    let [servers, listening, clients] = [const { AtomicUsize::new(0) }; 3];
    let next = |ends: &AtomicUsize| ends.fetch_add(1, Relaxed);
    let end = |rest: String| -> Box<dyn Transport> {
        let end = open(&rest).unwrap_or_else(|error| panic!("{rest}: {error}"));
        assert!(end.caps().wake.is_none());
        Box::new(end)
    };
    let near = || {
        let server = end(format!("net_memif0,role=server,socket=@am-{},am.pages=normal", sockets[next(&servers)]));
        next(&listening);
        server
    };
    let far = || {
        let nth = next(&clients);
        eventually("its server listens", || listening.load(Relaxed) > nth);
        end(format!("net_memif1,role=client,socket=@am-{}", sockets[nth]))
    };
    own_loop::ping_pong(own_loop::Wakes::Deadline, near, far);
}
