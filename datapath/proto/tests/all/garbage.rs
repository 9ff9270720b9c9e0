//! Any bytes may arrive from below. They are counted, never cause a panic, and disturb nothing else.

use std::time::Duration;

use crate::harness::{Buf, Net};
use am_wire::control::{Beacon, Control, Incarnation, NodeId, Purpose};
use am_wire::{Address, Buffer, Class};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

/// A frame that may or may not parse: random bytes, or a real frame damaged.
fn garbage(random: &mut SmallRng, real: &[Vec<u8>]) -> Vec<u8> {
    if random.random_bool(0.3) || real.is_empty() {
        let mut bytes = vec![0; random.random_range(0..200)];
        random.fill_bytes(&mut bytes);
        if bytes.len() > 14 && random.random_bool(0.9) {
            bytes[12..14].copy_from_slice(&(0x88b5 + random.random_range(0..2u16)).to_be_bytes());
        }
        return bytes;
    }
    let mut bytes = real[random.random_range(0..real.len())].clone();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len());
        bytes[at] ^= 1 << random.random_range(0..8);
    }
    bytes.truncate(random.random_range(bytes.len() / 2..=bytes.len() + 4));
    bytes
}

/// Frames of all kinds that one side of a busy connection sends.
fn real_frames() -> Vec<Vec<u8>> {
    let mut net = Net::new(1);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let mut frames = Vec::new();
    let flow = net.connect(alpha, here, "beta");
    for n in 0..40 {
        for _ in 0..1 + n % 2 * 3 {
            net.send(alpha, flow, Class::Request, n, b"some payload").unwrap();
        }
        while let Some(transmit) = net.core(alpha).poll_transmit(&mut || Some(Buf::fresh(2048))) {
            frames.push(transmit.frame.bytes().to_vec());
            net.core(beta).on_frame(transmit.frame);
        }
        while net.extract(beta, there).is_some() {}
        while let Some(transmit) = net.core(beta).poll_transmit(&mut || Some(Buf::fresh(2048))) {
            frames.push(transmit.frame.bytes().to_vec());
        }
    }
    net.core(alpha).shut_down();
    frames
}

#[test]
fn garbage_never_panics_and_is_counted() {
    let real = real_frames();
    let mut random = SmallRng::seed_from_u64(2);
    let mut net = Net::new(3);
    let (alpha, here) = net.node("alpha");
    let (_beta, _) = net.node("beta");
    net.connect(alpha, here, "beta");
    for n in 0..200_000 {
        let bytes = garbage(&mut random, &real);
        net.core(alpha).on_frame(Buf::of(&bytes));
        while net.core(alpha).poll_deliver(here).is_some() {}
        if n % 1000 == 0 {
            net.idle(Duration::from_micros(200));
        }
    }
    let dropped: u64 = net.core(alpha).counters().dropped.iter().sum();
    assert!(dropped > 100_000, "{dropped}");
}

#[test]
fn forged_beacons_fill_no_memory_and_cut_no_node_off() {
    let mut net = Net::new(4);
    let (alpha, here) = net.node("alpha");
    let (_beta, _) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    for n in 0..20_000u64 {
        let beacon = Beacon {
            node: NodeId(1000 + n),
            incarnation: Incarnation(1),
            name: crate::harness::name(&format!("fake{n}")),
            address: Address::from_u64(0x0200_0000_0000 + n),
            framings: am_wire::Framings::ALL,
            max_frame: 1514,
            purpose: [Purpose::Announce, Purpose::Ask, Purpose::Heartbeat][n as usize % 3],
        };
        let frame = Buf::of_control(&Control::Beacon(beacon), Address::BROADCAST, Address([2, 9, 9, 9, 9, 9]));
        net.core(alpha).on_frame(frame);
    }
    assert!(net.core(alpha).counters().peers_forgotten > 0);
    assert!(net.is_open(alpha, flow));
    // Nor nodes that start after the flood.
    let (_gamma, _) = net.node("gamma");
    net.connect(alpha, here, "gamma");
}
