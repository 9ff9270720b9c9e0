//! A stranger on the segment forges beacons. The number of frames that a node sends because of them is bounded, however
//! many there are.

use am_engine::{Engine, PollScope};
use am_netdev_sim::{MS, Nanos, Net, NetOptions, NodeEvent, US};
use am_proto::mutants::{Mutant, activate};
use am_proto::{Config, Core, Time};
use am_transport::Transport;
use am_wire::control::{Beacon, Control, Incarnation, Name, NodeId, Purpose};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Framings, Header, Kind};

const NODE: usize = 0;
const STRANGER: usize = 1;
const DURATION: Nanos = 200 * MS;
/// The time between two forged beacons.
const FORGE_INTERVAL: Nanos = 5 * US;
/// The most frames that the node may send in that time: three for each of 256 + 100 claims, 1,024 + 1,000 answers, and a
/// few beacons of its own.
const MAX_CONTROL_FRAMES: u64 = 3 * 356 + 2024 + 10;

/// A forged beacon: the same node, with another incarnation and address for each number.
fn forged(number: u64) -> Control {
    Control::Beacon(Beacon {
        node: NodeId(77),
        incarnation: Incarnation(1 + number),
        name: Name::new("beta").expect("short"),
        address: Address::from_u64(2 << 40 | number),
        framings: Framings::ALL,
        max_frame: 1514,
        purpose: Purpose::Ask,
    })
}

fn forge(net: &mut Net, number: u64) {
    let mut body = [0; Control::MAX_BYTES];
    let length = forged(number).emit(&mut body);
    let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    let link = LinkAddresses { to: Address::BROADCAST, from: net.address(STRANGER), ethertype: EtherType::DEFAULT };
    // The stranger ignores the node's answers.
    net.nic(STRANGER).receive(usize::MAX, &mut drop);
    if let Some(mut frame) = net.nic(STRANGER).caps().pool.take() {
        let space = frame.space().expect("nobody shares it");
        frame::body(space, Framing::Plain, length).expect("there is space").copy_from_slice(&body[..length]);
        let length = frame::emit(space, Framing::Plain, &link, &header, length, None).expect("there is space");
        frame.set_len(length);
        // A frame that finds no room is lost.
        let _ = net.nic(STRANGER).send(link.to, &frame);
    }
    net.nic(STRANGER).flush();
    net.start_nic(STRANGER);
}

/// How many claims the node received, and how many control frames it sent.
fn run_flood(seed: u64) -> (u64, u64) {
    let mut net = Net::new(NetOptions { seed, ..NetOptions::calm(2) });
    let name = Name::new("alpha").expect("short");
    let core = Core::new(Config::new(NodeId(1), Incarnation(1), name, net.address(NODE)), Time(0));
    let mut engine = Engine::new(core, net.nic(NODE).caps().pool.clone());
    net.alarm(0, STRANGER);
    let mut number = 0;
    while net.now() < DURATION
        && let Some(happening) = net.step()
    {
        let now = net.now();
        if happening == NodeEvent::Alarm(STRANGER) {
            forge(&mut net, number);
            number += 1;
            net.alarm(now + FORGE_INTERVAL, STRANGER);
        }
        engine.inhale(PollScope::Everything, || Time(now), net.nic(NODE));
        while engine.core_mut().poll_event().is_some() {}
        engine.exhale(|| Time(now), net.nic(NODE));
        net.start_nic(NODE);
    }
    let counters = engine.core().counters();
    (counters.claims, counters.control_sent)
}

#[test]
fn forged_beacons_draw_few_frames() {
    for seed in 0..3 {
        let (claims, sent) = run_flood(seed);
        assert!(claims > 10_000, "seed {seed}: the flood hardly arrived: {claims}");
        assert!(sent <= MAX_CONTROL_FRAMES, "seed {seed}: {sent} frames, more than {MAX_CONTROL_FRAMES}");
    }
}

#[test]
fn a_node_that_answers_all_of_them_is_caught() {
    activate(Some(Mutant::NoRate));
    let (_, sent) = run_flood(0);
    activate(None);
    assert!(sent > 10 * MAX_CONTROL_FRAMES, "{sent}");
}
