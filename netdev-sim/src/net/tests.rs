//! The trunk between two halves of a network.

use am_transport::{Transport, TransportExt};
use am_wire::{Buffer, EtherType, Flow, Framing, Header, Kind, frame};

use super::*;

/// Send `frames` full frames from one node to another. Returns the time of the last arrival, and the number of arrivals.
fn sent(options: NetOptions, from: usize, to: usize, frames: usize) -> (Nanos, usize, u64) {
    let mut net = Net::new(options);
    let flow = Flow::new(7).expect("a flow");
    net.nic(to).steer(flow, true);
    // The switch learns where everybody is.
    for node in [to, from] {
        let (own, all) = (net.address(node), Address::BROADCAST);
        send(&mut net, node, (own, all), flow);
        while net.step().is_some() {}
        (0..net.options().nodes).for_each(|node| _ = net.nic(node).receive(64, &mut |_| ()));
    }
    let (begin, addresses) = (net.now(), (net.address(from), net.address(to)));
    (0..frames).for_each(|_| send(&mut net, from, addresses, flow));
    while net.step().is_some() {}
    let arrived = net.nic(to).receive(1024, &mut |_| ());
    (net.now() - begin, arrived, net.switch().count.full)
}

fn send(net: &mut Net, node: usize, (from, to): (Address, Address), flow: Flow) {
    let link = frame::LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Request, flow, nonce: 0, handler: 3, words: 0, seq: 0 };
    let mut full = net.nic(node).caps().pool.take().expect("a frame");
    let space = full.space().expect("an own frame");
    let length = frame::emit(space, Framing::Plain, &link, &header, 1400, None).expect("room");
    full.set_len(length);
    assert!(net.nic(node).send(to, &full), "room");
    net.nic(node).flush();
    net.start_nic(node);
}

fn halves(trunk: Option<u64>) -> NetOptions {
    NetOptions { trunk, detect_writes: false, ..NetOptions::calm(4) }
}

#[test]
fn a_trunk_delays_what_crosses_it_and_nothing_else() {
    let slow = Some(NetOptions::calm(4).rate / 10);
    let time = |trunk, to| sent(halves(trunk), 0, to, 20).0;
    assert_eq!(time(slow, 1), time(None, 1));
    let (narrow, wide) = (time(slow, 2), time(None, 2));
    assert!(narrow > 5 * wide && narrow < 12 * wide, "{narrow} and {wide} ns");
}

#[test]
fn a_trunk_drops_what_its_buffer_does_not_hold() {
    let options = NetOptions { switch_buffer: 8000, ..halves(Some(100_000_000)) };
    let (_, arrived, full) = sent(options, 3, 0, 20);
    assert_eq!(arrived + full as usize, 20);
    // The buffer, and what leaves it while the frames come.
    assert!((5..=8).contains(&arrived), "{arrived}");
}
