//! A crowd of members: each node watches only some of them closely.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::harness::{Buf, Net, name};
use am_proto::{Departure, Event, MemberChange};
use am_wire::control::{Control, Leave};
use am_wire::frame::{self};
use am_wire::{Address, EtherType};

const COUNT: usize = 40;

/// A segment where all nodes watch, and have seen each other.
fn crowd(seed: u64) -> Net {
    let mut net = Net::new(seed);
    for at in 0..COUNT {
        net.node(&format!("n{at}"));
        net.core(at).watch_members();
    }
    net.idle(Duration::from_secs(8));
    (0..COUNT).for_each(|at| assert_eq!(net.core(at).members().count(), COUNT - 1, "seed {seed}, {at}"));
    net
}

/// What each running node saw leave, and why, since the last call.
fn departures(net: &mut Net) -> Vec<Vec<(String, Departure)>> {
    let running = (0..COUNT).filter(|&at| net.nodes[at].is_some()).collect::<Vec<_>>();
    let left = |event| match event {
        Event::Member(member, MemberChange::Left(why)) => Some((member.peer.name.to_string(), why)),
        _ => None,
    };
    running.into_iter().map(|at| net.events(at).into_iter().filter_map(left).collect()).collect()
}

fn report(net: &mut Net, receiver: usize, silent: usize) {
    let (node, incarnation) = (net.core(silent).config().node, net.core(silent).config().incarnation);
    let (to, from) = (net.core(receiver).config().address, Address([2, 0, 0, 0, 9, 9]));
    net.core(receiver).on_frame(Buf::of_control(&Control::Leave(Leave { node, incarnation }), to, from));
}

#[test]
fn crashes_are_noticed_by_all_within_two_seconds() {
    for seed in 0..2 {
        let mut net = crowd(seed);
        net.faults.drop = 0.1;
        departures(&mut net);
        [3, 20, 21, 22, 23, 24, 25].into_iter().for_each(|at| net.nodes[at] = None);
        net.idle(Duration::from_secs(2));
        for seen in departures(&mut net) {
            assert!(seen.iter().all(|(_, why)| *why == Departure::Silent), "seed {seed}: {seen:?}");
            let names: BTreeSet<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
            let dead = BTreeSet::from(["n3", "n20", "n21", "n22", "n23", "n24", "n25"]);
            assert_eq!((names, seen.len()), (dead, 7), "seed {seed}");
        }
    }
}

#[test]
fn a_farewell_is_noticed_as_one() {
    let mut net = crowd(9);
    departures(&mut net);
    net.core(7).shut_down();
    net.core(7).say_farewell();
    net.drain();
    net.nodes[7] = None;
    net.idle(Duration::from_secs(1));
    departures(&mut net).iter().for_each(|seen| assert_eq!(seen[..], [("n7".into(), Departure::Farewell)]));
    assert!(net.core(0).peers().all(|peer| peer.name != name("n7")));
}

#[test]
fn false_reports_remove_no_member_and_bring_few_beacons() {
    let mut net = crowd(10);
    departures(&mut net);
    net.log = Some(vec![]);
    for _ in 0..200 {
        (1..COUNT).for_each(|silent| report(&mut net, 0, silent));
        // The one that is meant denies it.
        report(&mut net, 5, 5);
        net.idle(Duration::from_millis(10));
    }
    let heard = net.log.take().unwrap();
    let beacon_of_5 = |bytes: &[u8]| {
        let parsed = frame::parse(bytes, EtherType::DEFAULT).ok();
        let control = parsed.and_then(|parsed| Control::parse(parsed.payload).ok());
        matches!(control, Some(Control::Beacon(beacon)) if beacon.name == name("n5"))
    };
    // Two denials a second, and an introduction each 0.3 to 0.4 s.
    let beacons = heard.iter().filter(|(at, bytes)| *at == 0 && beacon_of_5(bytes)).count();
    assert!((4 + 5..=5 + 7).contains(&beacons), "{beacons} beacons in two seconds");
    let asked = heard.iter().filter(|(at, _)| *at == 5).count();
    assert!(asked < 300, "{asked} frames to one node in two seconds");
    assert!(departures(&mut net).iter().all(Vec::is_empty));
}

/// In each half the members watched closely are soon all of the other half.
#[test]
fn a_partition_is_seen_soon_and_so_is_its_end() {
    let mut net = crowd(11);
    net.loss = crate::harness::Loss::Across(COUNT / 2);
    net.idle(Duration::from_millis(3000));
    (0..COUNT).for_each(|at| assert_eq!(net.core(at).members().count(), COUNT / 2 - 1, "{at}"));
    net.loss = crate::harness::Loss::None;
    net.idle(Duration::from_secs(4));
    (0..COUNT).for_each(|at| assert_eq!(net.core(at).members().count(), COUNT - 1, "{at}"));
}
