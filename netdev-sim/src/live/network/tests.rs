use std::thread::sleep;
use std::time::Duration;

use am_ring::{Layout, Pool};
use am_wire::{Buffer, EtherType, Flow, Framing, Header, Kind, frame};

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A network with two nodes.
fn network() -> Network {
    let fast = SimSettings { delay: Some(0), ..SimSettings::default() };
    let network = Network::new(fast.with_defaults()).expect("descriptors");
    for node in 0..2 {
        assert_eq!(network.join().expect("descriptors").map(|(node, _)| node), Some(node));
    }
    network
}

/// Send a control frame from the first node.
fn send(network: &Network, pool: &Pool, to: Address) {
    let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    let link = frame::LinkAddresses { to, from: network.address(0), ethertype: EtherType::DEFAULT };
    let mut control = pool.take().expect("a frame");
    let length = frame::emit(control.space().expect("ours"), Framing::Plain, &link, &header, 0, None).expect("room");
    control.set_len(length);
    network.with(0, |card| {
        assert!(card.send(&control), "room");
        card.flush(pool);
    });
}

#[test]
fn a_frame_that_arrives_before_sleep_prevents_it() {
    let (network, pool) = (network(), pool());
    network.with(1, |card| card.refill(&pool));
    send(&network, &self::pool(), network.address(1));
    sleep(MS);
    assert!(!network.try_sleep(1), "there is a frame");
    assert!(!network.is_quiet(1, network.now(), false));
    network.with(1, |card| assert_eq!(card.receive(64, &pool, &mut drop), 1));
    assert!(network.try_sleep(1) && network.is_quiet(1, network.now(), true));
}

/// Otherwise the timer would stay readable, and no node would sleep again.
#[test]
fn an_expired_timer_is_set_again_by_the_node_it_woke() {
    let network = network();
    assert!(network.try_sleep(1) && network.is_quiet(1, network.now(), true));
    // The state after other nodes have run the event that the timer was set to.
    network.lock().timer.set(Some(network.start + 1));
    network.timer_at.store(1, Relaxed);
    assert!(!network.is_quiet(1, network.now(), true), "it looks");
    network.with(1, |_| ());
    assert!(network.is_quiet(1, network.now(), true));
    assert_eq!(network.lock().timer.at, None);
}

fn pool() -> Pool {
    Pool::heap(Layout { frames: 64, stride: 2048, headroom: 0 }).expect("a pool")
}
