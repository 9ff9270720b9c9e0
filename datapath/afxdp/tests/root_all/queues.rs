//! Nodes on several queues of one interface, and on a queue that is nobody's. On a veth a frame comes in on the queue
//! that it was sent on. Needs root.

use std::time::{Duration, Instant};

use crate::pair::{Cable, PATIENCE, counter, eventually, flow, message, number};
use am_afxdp::{Xdp, XdpOptions};
use am_netns::VethOptions;
use am_ring::Frame;
use am_transport::{Transport, TransportExt};
use am_wire::control::{Beacon, Control, Incarnation, Name, NodeId, Purpose};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Framings, Header, Kind};

/// So long a frame may take that is expected not to arrive.
const QUIET_TIME: Duration = Duration::from_millis(300);

fn cable() -> Cable {
    Cable::new(&VethOptions { queues: 2, ..VethOptions::default() })
}

fn on(cable: &Cable, end: usize, queue: u32) -> Xdp {
    let mut open = cable.opens(end, &XdpOptions { queue, ..XdpOptions::new("am0") });
    open.steer(flow(), true);
    open
}

/// Send a message until it arrives.
fn reaches(from: &mut Xdp, to: &mut Xdp, what: u32) {
    let deadline = Instant::now() + PATIENCE;
    let mut arrived = false;
    while !arrived {
        let frame = message(from, to.caps().address, what).unwrap();
        assert!(from.send(to.caps().address, &frame), "room");
        from.flush();
        to.receive(64, &mut |frame| arrived |= number(&frame) == what);
        assert!(Instant::now() < deadline, "{what} never arrives");
    }
}

/// Frames that are there, of this sender if any.
fn received(at: &mut Xdp) -> Vec<Frame> {
    let mut frames = Vec::new();
    while at.receive(64, &mut |frame| frames.push(frame)) > 0 {}
    frames
}

/// What a node says to everybody.
fn announce(from: &mut Xdp) {
    let beacon = Beacon {
        node: NodeId(9),
        incarnation: Incarnation(1),
        name: Name::new("far").unwrap(),
        address: from.caps().address,
        framings: Framings::ALL,
        max_frame: 1514,
        purpose: Purpose::Ask,
    };
    let mut body = [0; Control::MAX_BYTES];
    let length = Control::Beacon(beacon).emit(&mut body);
    let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    let link = LinkAddresses { to: Address::BROADCAST, from: from.caps().address, ethertype: EtherType::DEFAULT };
    let mut frame = from.caps().pool.take().unwrap();
    let space = frame.space().unwrap();
    frame::body(space, Framing::Plain, length).unwrap().copy_from_slice(&body[..length]);
    let length = frame::emit(space, Framing::Plain, &link, &header, length, None).unwrap();
    frame.set_len(length);
    assert!(from.send(Address::BROADCAST, &frame), "room");
    from.flush();
}

#[test]
fn two_nodes_have_an_address_and_a_queue_each() {
    let cable = cable();
    let (mut a, mut b) = (on(&cable, 0, 0), on(&cable, 0, 1));
    let (mut c, mut d) = (on(&cable, 1, 0), on(&cable, 1, 1));
    let addresses = [&a, &b].map(|node| node.caps().address);
    assert_eq!(addresses[0].0, cable.ends[0].address());
    assert_ne!(addresses[0], addresses[1]);
    assert_eq!([&a, &b].map(|node| node.caps().name.clone()), ["xdp:am0", "xdp:am0,queue=1"]);
    for round in 0..100 {
        reaches(&mut c, &mut a, round);
        reaches(&mut d, &mut b, round);
        reaches(&mut b, &mut d, round);
        reaches(&mut a, &mut c, round);
    }
    for node in [&a, &b, &c, &d] {
        assert_eq!(counter(node, "xdp_drop_wrong_queue"), 0);
    }
}

/// Whether a message to an added address arrives here.
fn arrives(from: &mut Xdp, to: &mut Xdp, address: Address, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    let mut has_arrived = false;
    while !has_arrived && Instant::now() < deadline {
        let frame = message(from, address, 7).unwrap();
        assert!(from.send(address, &frame), "room");
        from.flush();
        to.receive(64, &mut |_| has_arrived = true);
    }
    has_arrived
}

/// The first node is alone when it adds its address. A second one puts a switch in front of it.
#[test]
fn frames_to_an_added_address_are_the_nodes_that_added_it() {
    let cable = cable();
    let [first, second] = [1, 2].map(|number| Address([0x82, 0, 0, 0, 7, number]));
    let mut a = on(&cable, 0, 0);
    a.steer(flow(), false);
    a.add_address(first).unwrap();
    let (mut c, mut d) = (on(&cable, 1, 0), on(&cable, 1, 1));
    assert!(arrives(&mut c, &mut a, first, PATIENCE));
    let mut b = on(&cable, 0, 1);
    b.steer(flow(), false);
    b.add_address(second).unwrap();
    assert!(arrives(&mut c, &mut a, first, PATIENCE) && arrives(&mut d, &mut b, second, PATIENCE));
    assert!(!arrives(&mut c, &mut a, second, QUIET_TIME) && !arrives(&mut d, &mut b, first, QUIET_TIME));
    assert_eq!([&a, &b].map(|node| counter(node, "broadcasts_handed_over")), [0, 0]);
    b.remove_address(second);
    assert!(arrives(&mut c, &mut a, first, PATIENCE) && !arrives(&mut d, &mut b, second, QUIET_TIME));
    drop(a);
    b.add_address(first).unwrap();
    assert!(arrives(&mut d, &mut b, first, PATIENCE));
}

/// Each has a table of its own: one's flow is not the other's.
#[test]
fn a_flow_that_one_node_closes_stays_the_others() {
    let cable = cable();
    let (mut a, mut b) = (on(&cable, 0, 0), on(&cable, 0, 1));
    let (mut c, mut d) = (on(&cable, 1, 0), on(&cable, 1, 1));
    a.steer(flow(), false);
    reaches(&mut d, &mut b, 1);
    assert!(c.send(a.caps().address, &message(&c, a.caps().address, 2).unwrap()), "room");
    c.flush();
    eventually("the frame is counted", || counter(&a, "xdp_drop_unknown_flow") == 1);
    assert_eq!((a.unknown_flow(), b.unknown_flow()), (Some(flow()), None));
    assert!(received(&mut a).is_empty());
}

#[test]
fn a_frame_on_the_other_nodes_queue_is_counted_for_the_one_it_was_for() {
    let cable = cable();
    let (mut a, mut b) = (on(&cable, 0, 0), on(&cable, 0, 1));
    let mut c = on(&cable, 1, 0);
    let to = b.caps().address;
    assert!(c.send(to, &message(&c, to, 1).unwrap()), "room");
    c.flush();
    eventually("the frame is counted", || counter(&b, "xdp_drop_wrong_queue") == 1);
    assert_eq!(counter(&a, "xdp_drop_wrong_queue"), 0);
    assert!(received(&mut a).is_empty() && received(&mut b).is_empty());
}

#[test]
fn what_is_for_everybody_reaches_both_nodes_whatever_its_queue() {
    let cable = cable();
    let (mut a, mut b) = (on(&cable, 0, 0), on(&cable, 0, 1));
    let (mut c, mut d) = (on(&cable, 1, 0), on(&cable, 1, 1));
    for _ in 0..10 {
        for sender in [&mut c, &mut d] {
            announce(sender);
            let from = sender.caps().address;
            let is_it =
                |frame: &Frame| frame::parse(frame.bytes(), EtherType::DEFAULT).is_ok_and(|it| it.source == from);
            let mut heard = [0, 0];
            eventually("both have it", || {
                heard[0] += received(&mut a).iter().filter(|frame| is_it(frame)).count();
                heard[1] += received(&mut b).iter().filter(|frame| is_it(frame)).count();
                heard == [1, 1]
            });
        }
    }
    assert_eq!([&a, &b].map(|node| counter(node, "broadcasts_handed_over")), [10, 10]);
    assert_eq!([&a, &b].map(|node| counter(node, "broadcasts_handed_over_lost")), [0, 0]);
}

#[test]
fn the_program_stays_until_the_last_node_closes() {
    let cable = cable();
    let (a, mut b) = (on(&cable, 0, 0), on(&cable, 0, 1));
    let (mut c, mut d) = (on(&cable, 1, 0), on(&cable, 1, 1));
    let address = a.caps().address;
    drop(a);
    assert!(cable.ends[0].has_xdp().unwrap());
    reaches(&mut d, &mut b, 1);
    reaches(&mut b, &mut d, 2);
    let mut a = on(&cable, 0, 0);
    assert_eq!(a.caps().address, address, "the interface's own, which is free again");
    reaches(&mut c, &mut a, 3);
    drop(b);
    reaches(&mut c, &mut a, 4);
    announce(&mut d);
    drop(a);
    assert!(cable.ends[0].loses_xdp().unwrap());
    let alone = on(&cable, 0, 1);
    assert_eq!(alone.caps().address, address);
}

#[test]
fn a_queue_that_nothing_is_steered_to_says_so() {
    let cable = cable();
    let mut deaf = on(&cable, 0, 1);
    let mut far = on(&cable, 1, 0);
    let to = deaf.caps().address;
    assert_eq!(deaf.link_error(), None);
    for number in 0..20 {
        assert!(far.send(to, &message(&far, to, number).unwrap()), "room");
        far.flush();
    }
    eventually("it says so", || deaf.link_error().is_some());
    let said = deaf.link_error().unwrap();
    assert!(said.starts_with("20 frames for this node came in on other queues of am0"), "{said}");
    assert!(said.ends_with("open its node on queue 1, too (queue=1)"), "{said}");
    drop(far);
    let mut near = on(&cable, 1, 1);
    for number in 0..30 {
        reaches(&mut near, &mut deaf, number);
    }
    eventually("all is well", || deaf.link_error().is_none());
}

#[test]
fn a_driver_without_rules_is_a_note() {
    let cable = cable();
    let steered = |queue| cable.open(0, &XdpOptions { queue, steer: true, ..XdpOptions::new("am0") }).unwrap();
    let notes = steered(1).mode().notes.join("; ");
    assert!(notes.contains("no rule steers to queue 1 of am0: its driver veth says"), "{notes}");
    assert!(notes.contains("the sender's queue counts"), "{notes}");
    let usual = steered(0).mode().notes.join("; ");
    assert!(!usual.contains("rule"), "queue 0 is where frames come in: {usual}");
    let one = Cable::new(&VethOptions::default());
    let notes = one.open(0, &XdpOptions { steer: true, ..XdpOptions::new("am0") }).unwrap().mode().notes.join("; ");
    assert!(!notes.contains("rule"), "{notes}");
}

/// A node that sleeps is woken by what another hands over.
#[test]
fn a_sleeping_node_is_woken() {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;

    let cable = cable();
    let (mut a, mut b) = (on(&cable, 0, 0), on(&cable, 0, 1));
    let mut c = on(&cable, 1, 0);
    let wakes = |node: &Xdp, wait: PollTimeout| {
        let wake = node.caps().wake.clone().unwrap();
        let mut on: Vec<_> = wake.iter().map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut on, wait).unwrap() > 0
    };
    assert!(!wakes(&b, PollTimeout::ZERO));
    announce(&mut c);
    eventually("it came", || !received(&mut a).is_empty());
    assert!(wakes(&b, PollTimeout::try_from(Duration::from_secs(5)).unwrap()));
    assert_eq!(received(&mut b).len(), 1);
    assert!(!wakes(&b, PollTimeout::ZERO));
}
