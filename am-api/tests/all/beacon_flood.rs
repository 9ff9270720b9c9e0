//! A stranger sends 100,000 forged beacons a second over UDP: of ever new nodes, and of the ones that talk, with other addresses and runs.
//! Nothing that was asked is lost, and a newcomer is still found. Over AF_XDP: `root_flood`.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, HandlerId, Node, Request};
use am_wire::control::{Beacon, Control, Incarnation, Name, NodeId, Purpose};
use am_wire::{Address, Framings};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::control_frame::said;

const ECHO: HandlerId = HandlerId(0);
const LASTS: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);
/// Between two forged beacons.
const EACH: Duration = Duration::from_micros(10);

fn forged(random: &mut SmallRng) -> Vec<u8> {
    let address = Address::from_u64(2 << 40 | u64::from(random.random::<u32>()));
    let text = match random.random_range(0..10) {
        0 => "alpha".to_owned(),
        1 => "beta".to_owned(),
        2 => "gamma".to_owned(),
        _ => format!("n{:x}", random.random::<u32>()),
    };
    let name = Name::new(&text).unwrap();
    let beacon = Control::Beacon(Beacon {
        node: NodeId::of(&name),
        incarnation: Incarnation(random.random()),
        name,
        address,
        framings: Framings::ALL,
        max_frame: random.random_range(0..9000),
        purpose: [Purpose::Announce, Purpose::Ask, Purpose::Heartbeat][random.random_range(0..3)],
    });
    said(address, &beacon)
}

/// What a side's handlers note.
#[derive(Debug, Default)]
struct Seen {
    replies: u64,
    lost: Vec<String>,
}

fn endpoint(node: &Node) -> Endpoint<Seen> {
    let mut endpoint = node.endpoint::<Seen>("main").unwrap();
    endpoint.on_request(ECHO, |_, Request { message, token }| _ = token.reply(ECHO, message.words(), b""));
    endpoint.on_reply(ECHO, |seen, _| seen.replies += 1);
    endpoint.on_returned(|seen, back| seen.lost.push(back.reason.to_string()));
    endpoint.on_connection(|seen, event| {
        if let ConnectionChange::Ended(why) = event.change {
            seen.lost.push(why.to_string());
        }
    });
    endpoint
}

fn open(endpoint: &mut Endpoint<Seen>, seen: &mut Seen) -> Connection {
    let start = Instant::now();
    loop {
        let to = endpoint.connect("beta", "main").unwrap();
        match endpoint.wait_open(seen, to, LONG) {
            Ok(()) => return to,
            // One set-up of many may not get through.
            Err(why) => assert!(start.elapsed() < LONG, "{why}"),
        }
        endpoint.close(to);
    }
}

fn ask(endpoint: &mut Endpoint<Seen>, seen: &mut Seen, to: Connection) {
    let start = Instant::now();
    while start.elapsed() < LASTS {
        let asked = seen.replies + 1;
        endpoint.try_request(to, ECHO, &[asked], b"").unwrap();
        while seen.replies < asked {
            endpoint.wait(seen, Duration::from_millis(5));
            assert!(seen.lost.is_empty() && start.elapsed() < LONG, "{seen:?}");
        }
    }
}

fn flood(places: [SocketAddr; 2], sent: &AtomicU64, over: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = SmallRng::seed_from_u64(1);
    let frames: Vec<_> = (0..100_000).map(|_| forged(&mut random)).collect();
    let start = Instant::now();
    for (number, frame) in (0..).zip(frames.iter().cycle()) {
        while start.elapsed() < EACH * number {}
        if over.load(Relaxed) {
            return;
        }
        // Where the receiver's socket is full it is lost.
        _ = socket.send_to(frame, places[number as usize % 2]);
        sent.fetch_add(1, Relaxed);
    }
}

/// A socket address as in the transport's name: `udp:127.0.0.1:7000,...`.
fn place(node: &Node) -> SocketAddr {
    node.local_address()["udp:".len()..].split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_flood_of_forged_beacons_loses_nothing() {
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (tell, told) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let beta = Node::open("beta", "udp:127.0.0.1:0").unwrap();
            tell.send(place(&beta)).unwrap();
            let (mut endpoint, mut seen) = (endpoint(&beta), Seen::default());
            while !over.load(Relaxed) {
                endpoint.wait(&mut seen, Duration::from_millis(5));
            }
        });
        let worked = std::panic::catch_unwind(|| {
            let beta = told.recv().unwrap();
            let join = |name| Node::open(name, &format!("udp:127.0.0.1:0,peer={beta}")).unwrap();
            let (alpha, mut seen) = (join("alpha"), Seen::default());
            let mut asking = endpoint(&alpha);
            let to = open(&mut asking, &mut seen);
            let places = [beta, place(&alpha)];
            thread::scope(|inner| {
                inner.spawn(|| flood(places, &sent, &over));
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    ask(&mut asking, &mut seen, to);
                    let (gamma, mut seen) = (join("gamma"), Seen::default());
                    open(&mut endpoint(&gamma), &mut seen);
                }));
                over.store(true, Relaxed);
                result.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
            });
            println!("{} replies beside {} forged beacons", seen.replies, sent.load(Relaxed));
        });
        over.store(true, Relaxed);
        worked.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
}
