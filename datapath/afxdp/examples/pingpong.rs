//! Measures where the time of a frame goes: round trips and a flood over a veth pair between two hosts on this machine,
//! without a protocol above the transport.
//!
//! `cargo run --release -p am-afxdp --example pingpong [SIZE [COUNT [RING]]]`, as root.

use std::error::Error;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use am_afxdp::{Rings, Xdp, XdpOptions};
use am_netns::{Host, VethOptions, veth};
use am_ring::Frame;
use am_transport::{Transport, TransportExt};
use am_wire::frame::{self, ETHERNET_HEADER, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

struct Plan {
    size: usize,
    count: usize,
    ring: u32,
    both: Barrier,
}

fn main() -> Fallible<()> {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let mut next = |default| numbers.next().unwrap_or(Ok(default));
    let (size, count, ring) = (next(60)?, next(200_000)?, next(2048)? as u32);
    let plan = Plan { size: size.clamp(60, 1514), count, ring, both: Barrier::new(2) };

    let (alpha, beta) = (Host::new("alpha")?, Host::new("beta")?);
    let (a, b) = veth(&alpha, "am0", &beta, "am0", &VethOptions::default())?;
    let (a, b) = (Address(a.address()), Address(b.address()));
    thread::scope(|scope| {
        let far = scope.spawn(|| beta.enter(|| far_side(&plan, a))?);
        alpha.enter(|| near_side(&plan, b))??;
        far.join().map_err(|_| "the far side panicked")?
    })
}

fn open(core: usize, plan: &Plan) -> Fallible<Xdp> {
    if let Some(core) = core_affinity::get_core_ids().unwrap_or_default().get(core) {
        core_affinity::set_for_current(*core);
    }
    let rings = Rings { rx: plan.ring, tx: plan.ring, fill: plan.ring, completion: plan.ring };
    let mut xdp = am_afxdp::open(&XdpOptions { rings, ..XdpOptions::new("am0") })?;
    xdp.steer(flow(), true);
    plan.both.wait();
    Ok(xdp)
}

fn near_side(plan: &Plan, to: Address) -> Fallible<()> {
    let mut xdp = open(1, plan)?;
    println!("mode {}, {:?}", xdp.mode(), xdp.mode().notes);
    let mut times: Vec<Duration> = (0..plan.count).map(|_| round_trip(&mut xdp, to, plan.size)).collect();
    times.sort_unstable();
    let at = |per_mille| times[times.len() * per_mille / 1000];
    println!("round trip of {} bytes: p50 {:?}, p99 {:?}, p99.9 {:?}", plan.size, at(500), at(990), at(999));
    cost_of_an_idle_turn(&mut xdp);
    plan.both.wait();
    flood(&mut xdp, to, plan);
    println!("near: {}", counters(&xdp));
    plan.both.wait();
    Ok(())
}

fn far_side(plan: &Plan, to: Address) -> Fallible<()> {
    let mut xdp = open(2, plan)?;
    for _ in 0..plan.count {
        let length = wait_for_one(&mut xdp).bytes().len();
        put(&mut xdp, to, length);
        xdp.flush();
    }
    plan.both.wait();
    let (mut received, mut last, mut share) = (0, Instant::now(), Share::default());
    while received < plan.count && last.elapsed() < Duration::from_secs(1) {
        match share.time(|| xdp.receive(64, &mut |frame| drop(frame))) {
            0 => (),
            burst => (received, last) = (received + burst, Instant::now()),
        }
        xdp.flush();
    }
    println!("our share of receiving a frame: {} ns", share.median());
    println!("flood: {received} of {} arrived", plan.count);
    println!("far: {}", counters(&xdp));
    plan.both.wait();
    Ok(())
}

/// The counters that are not zero.
fn counters(xdp: &Xdp) -> String {
    let mut text = String::new();
    xdp.counters(&mut |name, value| {
        if value > 0 {
            text += &format!(" {name} {value}");
        }
    });
    text
}

fn round_trip(xdp: &mut Xdp, to: Address, size: usize) -> Duration {
    let start = Instant::now();
    put(xdp, to, size);
    xdp.flush();
    drop(wait_for_one(xdp));
    start.elapsed()
}

fn wait_for_one(xdp: &mut Xdp) -> Frame {
    let mut arrived = None;
    while arrived.is_none() {
        xdp.receive(1, &mut |frame| arrived = Some(frame));
        xdp.flush();
    }
    arrived.expect("just looked")
}

fn flow() -> Flow {
    Flow::new(7).expect("a flow")
}

/// Send a frame; false if there was no room.
fn put(xdp: &mut Xdp, to: Address, size: usize) -> bool {
    let Some(mut frame) = xdp.caps().pool.take() else { return false };
    let header = Header { kind: Kind::Request, flow: flow(), nonce: 0, handler: 1, words: 0, seq: 0 };
    let link = LinkAddresses { to, from: xdp.caps().address, ethertype: EtherType::DEFAULT };
    let (space, body) = (frame.space().expect("nobody shares it"), size - ETHERNET_HEADER);
    let length = frame::emit(space, Framing::Bare, &link, &header, body, None).expect("there is room");
    frame.set_len(length);
    xdp.send(to, &frame)
}

fn flood(xdp: &mut Xdp, to: Address, plan: &Plan) {
    let (start, mut sent, mut share) = (Instant::now(), 0, Share::default());
    while sent < plan.count {
        let burst = 32.min(plan.count - sent);
        sent += share.time(|| (0..burst).take_while(|_| put(xdp, to, plan.size)).count());
        xdp.flush();
    }
    let rate = sent as f64 / start.elapsed().as_secs_f64();
    println!("flood: {rate:.0} frames/s, {:.0} MB/s", rate * plan.size as f64 / 1e6);
    println!("our share of sending a frame: {} ns", share.median());
}

/// The cost of the calls per frame, without the kernel's part, which is in `flush`.
#[derive(Default)]
struct Share(Vec<u64>);

impl Share {
    fn time(&mut self, call: impl FnOnce() -> usize) -> usize {
        let start = Instant::now();
        let frames = call();
        if frames > 0 {
            self.0.push(start.elapsed().as_nanos() as u64 / frames as u64);
        }
        frames
    }

    fn median(&mut self) -> u64 {
        self.0.sort_unstable();
        self.0.get(self.0.len() / 2).copied().unwrap_or(0)
    }
}

fn cost_of_an_idle_turn(xdp: &mut Xdp) {
    const TURNS: u32 = 1_000_000;
    let start = Instant::now();
    for _ in 0..TURNS {
        xdp.receive(64, &mut |frame| drop(frame));
        xdp.flush();
    }
    println!("a turn with nothing to do: {:?}", start.elapsed() / TURNS);
}
