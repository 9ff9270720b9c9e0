//! A node whose NIC gets another address, behind a filter: frames to the old one are lost.

use crate::host::{Host, MS, connected, extracted};
use am_proto::{FlowState, Time};
use am_ring::Frame;
use am_wire::{Address, Buffer};

const NEW: Address = Address([2, 0, 0, 0, 7, 7]);

/// A turn of both. A host receives frames to its present address, and to all.
fn exchange(hosts: &mut [Host; 2], now: Time) {
    for at in [0, 1] {
        hosts[at].turn(now);
        let own = hosts[1 - at].notes.caps.address;
        let is_for = |frame: &Frame| frame.bytes()[0] & 1 == 1 || frame.bytes()[..6] == own.0;
        hosts[at].notes.sent.retain(is_for);
        let [first, second] = hosts.each_mut();
        if at == 0 { second.notes.take_from(&mut first.notes) } else { first.notes.take_from(&mut second.notes) }
    }
}

/// Messages go on in both directions, on the same connection, within the patience for a silent peer.
#[test]
fn messages_go_on_at_a_new_address() {
    for changed in [0, 1] {
        let (alpha, beta, flow, mut now) = connected();
        let mut hosts = [alpha, beta];
        hosts[changed].notes.caps.address = NEW;
        (0..3).for_each(|number| hosts[0].request(flow, number));
        let (mut arrived, limit) = (vec![], Time(now.0 + 1400 * MS));
        while arrived.len() < 3 {
            now = Time(now.0 + MS);
            assert!(now < limit, "host {changed} has a new address; only {arrived:?} have arrived");
            exchange(&mut hosts, now);
            arrived.extend(extracted(&mut hosts[1]));
        }
        let until = Time(now.0 + 3000 * MS);
        while now < until {
            now = Time(now.0 + MS);
            exchange(&mut hosts, now);
        }
        assert_eq!(arrived, [0, 1, 2]);
        assert!(matches!(hosts[0].engine.core().state(flow), FlowState::Open { .. }));
        assert_eq!(hosts[0].engine.core().kept_messages(), 0, "each was acknowledged");
        assert_eq!(hosts[changed].engine.core().config().address, NEW);
        let known = hosts[1 - changed].engine.core().peers().next().unwrap().address;
        assert_eq!(known, NEW, "the other host knows it");
    }
}
