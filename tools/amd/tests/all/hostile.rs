//! Hostile programs beside honest ones: whatever they do, the others' messages all arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use am_transport::Transport;
use am_wire::Address;
use am_wire::control::{Control, NodeId, Probe, Step};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with};

use crate::common::{Place, Running, is_honest, list, port, until};
use crate::intruder::{Intruder, name};
use crate::pings::{Server, amd, echo};
use crate::scribbler::Scribbler;

/// Does something hostile on a thread, again and again, until it is dropped.
struct Hostile {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Hostile {
    /// `begin` runs on the thread, where its port stays.
    fn start<A: FnMut()>(begin: impl FnOnce() -> A + Send + 'static) -> Hostile {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut act, mut acts) = (begin(), 0);
            while !stopped.load(Relaxed) {
                act();
                acts += 1;
            }
            acts
        });
        Hostile { stop, thread: Some(thread) }
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// What an honest pair has done: every message arrived, and none was refused.
fn honest_pair(place: &Place, rounds: u64) {
    let server = Server::start("beta", amd(&place.socket()));
    for round in 0..rounds {
        echo(&format!("alpha{round}"), &amd(&place.socket()), "beta", 5_000);
    }
    let beta = port(&place.socket(), "beta").unwrap();
    is_honest(&beta);
    drop(server);
}

#[test]
fn one_that_scribbles_over_its_memory() {
    const SCRIBBLES: u64 = 1_000_000;
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let mut scribbler = Scribbler::attach(&place.socket(), 7);
    let ended = Arc::new(AtomicBool::new(false));
    let has_ended = ended.clone();
    let hostile = std::thread::spawn(move || {
        (0..SCRIBBLES).for_each(|_| scribbler.scribble());
        has_ended.store(true, Relaxed);
        scribbler.attached
    });
    // The daemon reads what is scribbled, and honest programs talk meanwhile.
    let refused = || list(&place.socket()).ports.iter().map(|port| port.refused.values().sum::<u64>()).max();
    let mut most = 0;
    while !ended.load(Relaxed) {
        honest_pair(&place, 1);
        most = most.max(refused().unwrap_or(0));
    }
    println!("attached {} times, {most} frames refused", hostile.join().unwrap());
    assert!(most > 10, "the daemon has read little of it: {most} frames");
    honest_pair(&place, 1);
    until("its port is free", || list(&place.socket()).ports.is_empty());
}

#[test]
fn one_that_floods_a_node_that_never_asked() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let server = Server::start("beta", amd(&place.socket()));
    until("the server has its name", || port(&place.socket(), "beta").is_some());
    let to: Address = port(&place.socket(), "beta").unwrap().address.parse().unwrap();
    let socket = place.socket();
    let hostile = std::thread::spawn(move || {
        let mut mallory = Intruder::attach(&socket);
        mallory.introduce("mallory");
        let node = NodeId::of(&name("mallory"));
        let probe = mallory.control(to, mallory.address(), &Control::Probe(Probe { id: 1, node, step: Step::True }));
        for _ in 0..300_000 {
            mallory.send(&probe);
        }
    });
    echo("alpha", &amd(&place.socket()), "beta", 20_000);
    hostile.join().unwrap();
    echo("gamma", &amd(&place.socket()), "beta", 1_000);
    drop(server);
}

#[test]
fn one_that_stops_reading() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let mut deaf = Intruder::attach(&place.socket());
    deaf.introduce("deaf");
    until("it has its name", || port(&place.socket(), "deaf").is_some());
    // It gets every broadcast, and reads none of them.
    let socket = place.socket();
    let hostile = Hostile::start(move || {
        let mut loud = Intruder::attach(&socket);
        loud.introduce("loud");
        let name = name("loud");
        let beacon = loud.beacon(NodeId::of(&name), name, loud.address());
        let frame = loud.control(Address::BROADCAST, loud.address(), &beacon);
        move || loud.send(&frame)
    });
    until("its lane is full", || port(&place.socket(), "deaf").unwrap().dropped > 100);
    honest_pair(&place, 2);
    assert!(hostile.end() > 100);
    until("what was in its lane is still there", || deaf.port.receive(64, &mut |_| ()) > 0);
}

#[test]
fn visitors_that_say_nothing_or_nonsense() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let visit = |packet: &[u8]| {
        let own = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&own, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
        if !packet.is_empty() {
            send(&own, packet, SendFlags::NOSIGNAL).unwrap();
        }
        own
    };
    let silent: Vec<_> = (0..40).map(|_| visit(&[])).collect();
    let mut random = SmallRng::seed_from_u64(3);
    for _ in 0..2_000 {
        let mut packet = vec![0; random.random_range(1..600)];
        random.fill_bytes(&mut packet);
        if random.random() {
            packet.splice(0..4.min(packet.len()), *b"amd\x01");
        }
        drop(visit(&packet));
    }
    honest_pair(&place, 1);
    drop(silent);
}
