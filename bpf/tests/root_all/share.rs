//! Several steering programs on one interface: which of them sees which frame. Needs root.

use crate::cable::{Cable, count, eventually};
use am_bpf::{Config, NodeSwitch, Steer};
use am_netns::{Tap, VethOptions};
use am_wire::{Address, EtherType, Framing};

const SECOND: Address = Address([6, 0, 0, 0, 0, 1]);
const NOBODY: Address = Address([2, 9, 9, 9, 9, 9]);

fn second() -> Steer {
    let (ethertype, own) = (EtherType::DEFAULT, SECOND);
    let config = Config { ethertype, own, node_socket: 0, counts_redirected: true, lost_per_million: 0 };
    Steer::load(&config).unwrap_or_else(|error| panic!("{error}"))
}

/// Frames that a program saw: for its own address, on an unknown flow, and for others.
fn seen(steer: &Steer) -> [u64; 2] {
    ["xdp_drop_unknown_flow", "xdp_pass_other_host"].map(|name| count(steer, name))
}

/// Send a frame to each, by the queue of the veth's only sender, which is 0.
fn send(cable: &Cable, tap: &Tap) {
    let mut frame = cable.request(Framing::Bare, 17);
    for to in [cable.own(), SECOND, NOBODY] {
        frame[..6].copy_from_slice(&to.0);
        tap.send(&frame).unwrap();
    }
}

#[test]
fn each_frame_is_its_nodes_or_the_queues_or_anybodys() {
    let cable = Cable::new(&VethOptions::default());
    let (mut first, mut second) = (cable.steer(), second());
    let attachment = cable.attach(&mut first);
    let programs = [&mut first, &mut second].map(|steer| steer.program().unwrap());
    let mut share = NodeSwitch::load().unwrap_or_else(|error| panic!("{error}"));
    share.add(0, &programs[0], cable.own(), 5).unwrap();
    share.add(1, &programs[1], SECOND, 0).unwrap();
    let attachment = share.replace(attachment).unwrap();
    let tap = Tap::new(&cable.far).unwrap();
    let both = || [&first, &second].map(seen);

    send(&cable, &tap);
    eventually("the second has the queue", || both() == [[1, 0], [1, 1]]);
    share.remove(1, SECOND, 0, 0);
    send(&cable, &tap);
    eventually("the first is any", || both() == [[2, 2], [1, 1]]);
    assert!(cable.near.has_xdp().unwrap());
    drop(attachment);
    assert!(!cable.near.has_xdp().unwrap());
}

#[test]
fn a_sixteenth_node_fits_and_a_seventeenth_is_refused() {
    let mut share = NodeSwitch::load().unwrap();
    let program = second().program().unwrap();
    let address = |node: u32| Address([2, 0, 0, 0, 1, node as u8]);
    for node in 0..NodeSwitch::NODES {
        share.add(node, &program, address(node), node).unwrap_or_else(|error| panic!("{node}: {error}"));
    }
    assert!(share.add(NodeSwitch::NODES, &program, address(99), 99).is_err());
}
