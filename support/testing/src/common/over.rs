//! The same tests over every transport: `AM_TEST_OVER=udp cargo test -p am-api-tests ping_pong::`.
//! `scripts/test` does so for all of them.

use std::cell::RefCell;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use am_api::Transport;
use am_netns::{Host, VethOptions, veth};
use am_transport::TransportExt;
use am_transport::faulty::{Faults, Faulty};
use nix::sched::{CloneFlags, setns};

use super::daemon::Serving;

/// Two ends of a link of this kind, both in this thread.
pub(super) fn pair(which: &str) -> (Box<dyn Transport>, Box<dyn Transport>) {
    match which {
        // Frames as long as those of the wire in memory: the tests know what fits into one.
        "udp" => sockets("udp:127.0.0.1:0,frame=1514"),
        "udp6" => sockets("udp:[::1]:0,frame=1514"),
        "tcp" => sockets("tcp:127.0.0.1:0,frame=1514"),
        "tcp6" => sockets("tcp:[::1]:0,frame=1514"),
        "shm" => {
            let name = format!("shm:am-api-test-{}-{},frame=1514", process::id(), number());
            (open(&name), open(&name))
        }
        // As fast as it can be: some tests have a clock of their own.
        "sim" => simulated(",delay=0,rate=10T"),
        "lossy-sim" => simulated(",loss=0.02,duplicate=0.02,reorder=0.02,delay=20us"),
        "faulty-udp" => {
            let (left, right) = sockets("udp:127.0.0.1:0,frame=1514");
            (faulty(left), faulty(right))
        }
        "both" => several(),
        // A daemon that runs between the turns of the nodes, and one that runs when it likes.
        "amd" => super::turned::pair(),
        "amd-alone" => daemon(),
        "xdp" => interfaces(),
        "memif" => memif(),
        other => panic!("{} is no transport to test over: {other}", super::OVER),
    }
}

fn open(name: &str) -> Box<dyn Transport> {
    am_api::transports::open(name).unwrap_or_else(|error| panic!("{error}"))
}

fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// Both ends of a network of their own.
fn simulated(settings: &str) -> (Box<dyn Transport>, Box<dyn Transport>) {
    let name = format!("sim:{}{settings}", number());
    (open(&name), open(&name))
}

/// Either side may know of the other first: here it is the left one.
fn sockets(name: &str) -> (Box<dyn Transport>, Box<dyn Transport>) {
    let (mut left, right) = (open(name), open(name));
    left.add_peer(&right.caps().name).unwrap_or_else(|error| panic!("{error}"));
    (left, right)
}

/// Two ways, the better of which is taken.
fn several() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let name = format!("udp:127.0.0.1:0,frame=1514+shm:am-api-test-{}-{}", process::id(), number());
    let (mut left, right) = (open(&name), open(&name));
    let place = right.caps().name.split('+').find(|name| name.starts_with("udp:")).map(str::to_owned);
    left.add_peer(&place.expect("one is by UDP")).unwrap_or_else(|error| panic!("{error}"));
    (left, right)
}

/// Both ends of a memif in one process: two devices, and a socket with no file.
fn memif() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let socket = format!("am-api-test-{}-{}", process::id(), number());
    let end = |role| {
        let device = number();
        open(&format!("dpdk:net_memif{device},role={role},id=0,socket={socket},am.mtu=1500,am.frames=6144"))
    };
    let left = end("server");
    (left, end("client"))
}

/// Two hosts and a cable; this thread is on the second from then on. Needs root.
fn interfaces() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let make = |name| Host::new(name).unwrap_or_else(|error| panic!("{error}"));
    let hosts = [make("alpha"), make("beta")];
    veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let [left, right] = hosts.each_ref().map(|host| {
        setns(host, CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
        open("xdp:am0")
    });
    // The cable is there as long as the test's thread.
    CABLES.with_borrow_mut(|cables| cables.push(hosts));
    (left, right)
}

/// Two programs of one daemon.
fn daemon() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let daemon = Serving::start();
    let name = format!("{},frame=1514", daemon.transport());
    let ends = (open(&name), open(&name));
    // It serves as long as the test's thread lives.
    DAEMONS.with_borrow_mut(|daemons| daemons.push(daemon));
    ends
}

thread_local! {
    static DAEMONS: RefCell<Vec<Serving>> = const { RefCell::new(vec![]) };
    static CABLES: RefCell<Vec<[Host; 2]>> = const { RefCell::new(vec![]) };
}

fn faulty(inner: Box<dyn Transport>) -> Box<dyn Transport> {
    Box::new(Faulty::new(inner, Faults::lossy(number(), 0.02)))
}
