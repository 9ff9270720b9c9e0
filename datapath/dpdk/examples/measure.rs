//! Measures the cost of the layers over a pair of DPDK's ports: bare frames, this transport, whole nodes.
//!
//! `cargo run --release -p am-dpdk --example measure -- memif` (or `virtio`). Both ends are on one thread. The figure
//! is the CPU time of both, which is the same on a machine with other load.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use am_api::{Endpoint, HandlerId, Node, Request};
use am_dpdk::raw::{BATCH, Raw};
use am_dpdk::{Dpdk, DpdkOptions};
use am_transport::{Transport, TransportExt, TransportName};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};
use nix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 7;
const TRIPS: usize = 100_000;
const BURSTS: usize = 20_000;
const BURST: usize = 32;
const ECHO: HandlerId = HandlerId(1);
const SINK: HandlerId = HandlerId(2);
const SECONDS: Duration = Duration::from_secs(10);

/// The names of the two ends. The first is opened first.
fn names(pair: &str) -> [DpdkOptions; 2] {
    static PAIRS: AtomicUsize = AtomicUsize::new(0);
    let number = format!("{}-{}", std::process::id(), PAIRS.fetch_add(1, Relaxed));
    let ends = match pair {
        "virtio" => {
            let path = std::env::temp_dir().join(format!("am-{number}"));
            let path = path.display();
            [format!("net_vhost0,iface={path}"), format!("net_virtio_user0,path={path},mac=02:00:00:00:00:02")]
        }
        _ => ["server", "client"].map(|role| {
            let (port, last) = if role == "server" { (0, 1) } else { (1, 2) };
            format!("net_memif{port},role={role},socket=@am-{number},mac=02:00:00:00:00:0{last}")
        }),
    };
    ends.map(|end| {
        let name: TransportName = format!("dpdk:{end}").parse().expect("a name");
        DpdkOptions::of(&name).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// The mean CPU time of a run, in nanoseconds.
fn cost(count: usize, run: impl FnOnce()) -> f64 {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every system has it"));
    let before = now();
    run();
    (now() - before).as_nanos() as f64 / count as f64
}

/// Round trips, and bursts one way: nanoseconds of both ends for one frame.
#[derive(Clone, Copy)]
struct Costs {
    trip: f64,
    way: f64,
}

/// A message of 16 bytes.
fn message(from: Address, to: Address, space: &mut [u8]) -> usize {
    let flow = Flow::new(7).expect("a flow");
    let header = Header { kind: Kind::Request, flow, nonce: 0, handler: 1, words: 0, seq: 0 };
    let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
    frame::body(space, Framing::Bare, 16).expect("there is room").fill(7);
    frame::emit(space, Framing::Bare, &link, &header, 16, None).expect("there is room")
}

fn bare(pair: &str) -> Costs {
    let mut ends = names(pair).map(|end| Raw::open(&end).unwrap_or_else(|error| panic!("{error}")));
    let [near, far] = &mut ends;
    while !near.is_up() || !far.is_up() {
        near.receive(BATCH, &mut |_| false);
        far.receive(BATCH, &mut |_| false);
    }
    // memif's client must connect before there is room.
    far.receive(BATCH, &mut |_| false);
    let mut space = [0; 64];
    let length = message(near.address(), far.address(), &mut space);
    near.write(&space[..length]).expect("it fits");
    let trip = cost(TRIPS, || {
        for _ in 0..TRIPS {
            while near.send(1) == 0 {}
            while far.receive(BATCH, &mut |_| true) == 0 {}
            while near.receive(BATCH, &mut |_| false) == 0 {}
        }
    });
    let way = cost(BURSTS * BURST, || {
        for _ in 0..BURSTS {
            let sent = near.send(BURST);
            let mut left = sent;
            while left > 0 {
                left -= far.receive(BATCH, &mut |_| false);
            }
        }
    });
    Costs { trip, way }
}

/// Send a frame from the pool.
fn send(end: &mut Dpdk, to: Address) {
    let from = end.caps().address;
    let mut frame = end.caps().pool.take().expect("they come home");
    let length = message(from, to, frame.space().expect("nobody shares it"));
    frame.set_len(length);
    assert!(end.send(to, &frame), "the queue was flushed");
}

/// Receive what was sent, and send the frames that found no room.
fn deliver(from: &mut Dpdk, to: &mut Dpdk, mut count: usize) {
    while count > 0 {
        from.flush();
        count -= to.receive(64, &mut |_| ());
    }
}

fn seam(pair: &str) -> Costs {
    let mut ends = names(pair).map(|end| am_dpdk::open(&end).unwrap_or_else(|error| panic!("{error}")));
    let [near, far] = &mut ends;
    while !near.is_up() || !far.is_up() {
        near.flush();
    }
    [&mut *near, &mut *far].into_iter().for_each(|end| end.steer(Flow::new(7).expect("a flow"), true));
    let (here, there) = (near.caps().address, far.caps().address);
    let trip = cost(TRIPS, || {
        for _ in 0..TRIPS {
            send(near, there);
            deliver(near, far, 1);
            send(far, here);
            deliver(far, near, 1);
        }
    });
    let way = cost(BURSTS * BURST, || {
        for _ in 0..BURSTS {
            (0..BURST).for_each(|_| send(near, there));
            deliver(near, far, BURST);
            far.flush();
        }
    });
    Costs { trip, way }
}

/// A node, and an endpoint that counts.
fn node(name: &str, end: &DpdkOptions, bundles: bool) -> (Node, Endpoint<u64>) {
    let end = am_dpdk::open(end).unwrap_or_else(|error| panic!("{error}"));
    let node = Node::builder(name).coalesce(bundles).open_on(Box::new(end)).expect("the transport has room");
    let mut endpoint = node.endpoint::<u64>("main").expect("the first");
    endpoint.on_request(ECHO, |_, Request { message: request, token }| {
        token.reply(ECHO, &[], request.payload()).expect("it fits")
    });
    endpoint.on_request(SINK, |count, _| *count += 1);
    endpoint.on_reply(ECHO, |count, _| *count += 1);
    (node, endpoint)
}

fn nodes(pair: &str, bundles: bool) -> Costs {
    let [mine, theirs] = names(pair);
    let (_here, mut near) = node("near", &mine, bundles);
    let (_there, mut far) = node("far", &theirs, bundles);
    let to = near.connect("far", "main").expect("a name");
    let (mut here, mut there) = (0, 0);
    while !near.is_open(to) {
        near.wait(&mut here, SECONDS / 10_000);
        far.wait(&mut there, SECONDS / 10_000);
    }
    let trip = cost(TRIPS, || {
        for number in 0..TRIPS as u64 {
            near.try_request(to, ECHO, &[], &[7; 16]).expect("there is credit");
            while here <= number {
                near.poll(&mut here);
                far.poll(&mut there);
            }
        }
    });
    let way = cost(BURSTS * BURST, || {
        for number in 1..=(BURSTS * BURST) as u64 {
            while near.try_request(to, SINK, &[], &[7; 16]).is_err() {
                near.poll(&mut here);
                far.poll(&mut there);
            }
            if number % BURST as u64 == 0 {
                near.poll(&mut here);
                far.poll(&mut there);
            }
        }
        while there < (BURSTS * BURST) as u64 {
            near.poll(&mut here);
            far.poll(&mut there);
        }
    });
    Costs { trip, way }
}

fn main() {
    let pair = std::env::args().nth(1).unwrap_or_else(|| "memif".into());
    let layers: [(&str, &dyn Fn() -> Costs); 4] = [
        ("bare frames", &|| bare(&pair)),
        ("through the seam", &|| seam(&pair)),
        ("nodes, no bundles", &|| nodes(&pair, false)),
        ("nodes", &|| nodes(&pair, true)),
    ];
    let mut best = [Costs { trip: f64::INFINITY, way: f64::INFINITY }; 4];
    // In turn, so that all meet the same load.
    for _ in 0..ROUNDS {
        for (best, (_, run)) in best.iter_mut().zip(&layers) {
            let costs = run();
            *best = Costs { trip: best.trip.min(costs.trip), way: best.way.min(costs.way) };
        }
    }
    for ((name, _), Costs { trip, way }) in layers.iter().zip(&best) {
        let (trips, ways) = (trip / best[0].trip, way / best[0].way);
        println!(
            "{name:<18} there and back {trip:6.0} ns ({trips:.2})   one way, in bursts of {BURST} {way:5.0} ns ({ways:.2})"
        );
    }
}
