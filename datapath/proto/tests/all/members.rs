//! Members: who joined, who left and why, as each node sees it.

use std::time::Duration;

use crate::harness::{Buf, Faults, Loss, Net, Wiring, name};
use am_proto::{Departure, Event, Fate, FlowState, MemberChange, ReturnReason};
use am_wire::control::{Beacon, Control, Incarnation, Leave, NodeId, Purpose};
use am_wire::{Address, Class, Framing, Framings};

const NAMES: [&str; 16] =
    ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "na", "nb", "nc", "nd", "ne", "nf"];
const LIMIT: Duration = Duration::from_secs(2);

type Change = (String, MemberChange);

/// A segment on which the first `watching` of `count` nodes watch.
fn segment(seed: u64, count: usize, watching: usize) -> Net {
    let mut net = Net::new(seed);
    for named in &NAMES[..count] {
        net.node(named);
    }
    (0..watching).for_each(|at| net.core(at).watch_members());
    net
}

fn changes(net: &mut Net, at: usize) -> Vec<Change> {
    let events = net.events(at).into_iter();
    let changes = events.filter_map(|event| match event {
        Event::Member(member, change) => Some((member.peer.name.to_string(), change)),
        _ => None,
    });
    changes.collect()
}

fn names(net: &mut Net, at: usize) -> Vec<String> {
    let mut names: Vec<String> = net.core(at).members().map(|member| member.peer.name.to_string()).collect();
    names.sort();
    names
}

fn left(who: usize, why: Departure) -> Change {
    (NAMES[who].into(), MemberChange::Left(why))
}

fn joined(who: usize) -> Change {
    (NAMES[who].into(), MemberChange::Joined)
}

/// Stop a node as its engine does.
fn leave(net: &mut Net, at: usize) {
    net.core(at).shut_down();
    net.core(at).say_farewell();
    net.drain();
    net.nodes[at] = None;
}

fn control(net: &mut Net, receiver: usize, from: Address, control: Control) {
    let to = net.core(receiver).config().address;
    net.core(receiver).on_frame(Buf::of_control(&control, to, from));
}

#[test]
fn all_see_all_soon_although_frames_are_lost() {
    for seed in 0..20 {
        let mut net = segment(seed, 16, 16);
        net.faults = Faults { drop: 0.2, duplicate: 0.1, delay: 0.2 };
        net.idle(LIMIT);
        for at in 0..16 {
            let mut seen = changes(&mut net, at);
            seen.sort_by(|a, b| a.0.cmp(&b.0));
            let others = (0..16).filter(|&other| other != at);
            assert_eq!(seen, others.map(joined).collect::<Vec<_>>(), "seed {seed}, {at}");
        }
    }
}

#[test]
fn nothing_is_reported_and_nothing_asked_where_nobody_watches() {
    let mut net = segment(1, 4, 0);
    net.idle(Duration::from_secs(30));
    let before = net.sent;
    net.idle(Duration::from_secs(50));
    assert_eq!(net.sent - before, 4 * 10, "a beacon of each node every five seconds");
    assert_eq!((changes(&mut net, 0), names(&mut net, 0).len()), (vec![], 3));
}

#[test]
fn a_crash_is_noticed_within_two_seconds_and_a_new_run_at_once() {
    for watching in [16, 1] {
        for seed in 0..20 {
            let mut net = segment(seed, 16, watching);
            net.faults.drop = 0.2;
            net.idle(Duration::from_secs(7));
            changes(&mut net, 0);
            net.nodes[5] = None;
            net.idle(LIMIT);
            assert_eq!(changes(&mut net, 0), [left(5, Departure::Silent)], "seed {seed}");
            assert_eq!(names(&mut net, 0).len(), 14);
            net.restart(5, NAMES[5]);
            net.idle(LIMIT);
            assert_eq!(changes(&mut net, 0), [joined(5)], "seed {seed}");
            net.restart(6, NAMES[6]);
            net.idle(LIMIT);
            assert_eq!(changes(&mut net, 0), [left(6, Departure::Restarted), joined(6)], "seed {seed}");
        }
    }
}

/// It was descheduled when another node was killed, and is back 350 ms before the two seconds are over.
#[test]
fn one_that_was_descheduled_knows_of_a_crash_in_time_and_blames_nobody_else() {
    for seed in 0..100 {
        let mut net = segment(seed, 16, 16);
        net.faults.drop = 0.2;
        net.idle(Duration::from_secs(7));
        changes(&mut net, 0);
        net.nodes[5] = None;
        net.idle(Duration::from_millis(100 + 10 * (seed % 40)));
        let away = net.nodes[0].take();
        net.idle(Duration::from_millis(1550 - 10 * (seed % 40)));
        net.nodes[0] = away;
        net.idle(Duration::from_millis(350));
        assert_eq!(changes(&mut net, 0), [left(5, Departure::Silent)], "seed {seed}");
    }
}

#[test]
fn a_node_that_leaves_is_gone_sooner_than_a_crashed_one() {
    let mut net = segment(3, 4, 4);
    net.idle(LIMIT);
    changes(&mut net, 0);
    leave(&mut net, 2);
    net.idle(Duration::from_millis(700));
    assert_eq!(changes(&mut net, 0), [left(2, Departure::Farewell)]);
    assert!(net.core(0).peers().all(|peer| peer.name != name(NAMES[2])), "a connect searches for it anew");
}

#[test]
fn a_forged_farewell_removes_nobody() {
    let mut net = segment(4, 3, 3);
    net.faults.drop = 0.2;
    net.idle(LIMIT);
    changes(&mut net, 0);
    let (node, incarnation) = (net.core(1).config().node, net.core(1).config().incarnation);
    for _ in 0..20 {
        control(&mut net, 0, Address([2, 0, 0, 0, 9, 9]), Control::Leave(Leave { node, incarnation }));
        net.idle(Duration::from_millis(100));
    }
    net.idle(LIMIT);
    assert_eq!((changes(&mut net, 0), names(&mut net, 0).len()), (vec![], 2));
}

#[test]
fn forged_beacons_add_no_member_and_cause_few_questions() {
    let mut net = segment(5, 2, 1);
    net.idle(LIMIT);
    changes(&mut net, 0);
    let before = net.sent;
    for n in 0..100 {
        let address = Address([2, 0, 0, 7, 0, n]);
        let beacon = Beacon {
            node: NodeId(1000 + u64::from(n)),
            incarnation: Incarnation(7),
            name: name(&format!("forged{n}")),
            address,
            framings: Framings::ALL,
            max_frame: 1514,
            purpose: Purpose::Announce,
        };
        control(&mut net, 0, address, Control::Beacon(beacon));
    }
    net.idle(Duration::from_secs(10));
    assert_eq!((changes(&mut net, 0), names(&mut net, 0)), (vec![], vec!["n1".to_string()]));
    assert!(net.sent - before <= 100 * 7 + 100, "{} frames", net.sent - before);
}

#[test]
fn one_that_is_descheduled_for_long_blames_nobody() {
    let mut net = segment(6, 4, 4);
    net.idle(LIMIT);
    (0..4).for_each(|at| drop(changes(&mut net, at)));
    let away = net.nodes[0].take();
    net.idle(Duration::from_secs(5));
    for at in 1..4 {
        assert_eq!(changes(&mut net, at), [left(0, Departure::Silent)]);
    }
    net.nodes[0] = away;
    net.idle(LIMIT);
    assert_eq!(changes(&mut net, 0), [], "all others answer when they are asked");
    for at in 1..4 {
        assert_eq!(changes(&mut net, at), [joined(0)]);
    }
}

/// A connection on which nothing arrived yet is no sign of life after it opened.
#[test]
fn the_crash_of_a_peer_that_has_just_accepted_is_noticed_as_soon() {
    let mut net = segment(11, 2, 2);
    net.idle(LIMIT);
    let endpoint = net.core(0).add_endpoint(name("asks"), 0).unwrap();
    net.connect(0, endpoint, NAMES[1]);
    changes(&mut net, 0);
    net.nodes[1] = None;
    net.idle(LIMIT);
    assert_eq!(changes(&mut net, 0).last(), Some(&left(1, Departure::Silent)));
}

#[test]
fn the_halves_of_a_partition_lose_and_find_each_other() {
    let mut net = segment(7, 4, 4);
    net.wiring = Wiring::Switch;
    net.idle(LIMIT);
    let endpoint = net.core(0).add_endpoint(name("asks"), 0).unwrap();
    let flow = net.connect(0, endpoint, NAMES[3]);
    net.idle(LIMIT);
    (0..4).for_each(|at| drop(changes(&mut net, at)));
    net.loss = Loss::Across(2);
    net.send(0, flow, Class::Request, 1, b"lost").unwrap();
    net.idle(LIMIT);
    let mut gone = changes(&mut net, 0);
    gone.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(gone, [left(2, Departure::Silent), left(3, Departure::Silent)]);
    assert_eq!(names(&mut net, 3), [NAMES[2]], "the other half sees the same");
    assert_eq!(net.core(0).state(flow), FlowState::Ended(ReturnReason::Unreachable));
    let back = net.core(0).poll_returned(endpoint).unwrap();
    assert_eq!((back.fate, back.message.payload()), (Fate::Unknown, &b"lost"[..]));
    net.idle(Duration::from_secs(20));
    changes(&mut net, 3);
    net.loss = Loss::None;
    net.idle(LIMIT);
    let mut found = changes(&mut net, 0);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, [joined(2), joined(3)]);
    assert_eq!(names(&mut net, 3), NAMES[..3]);
    let flow = net.connect(0, endpoint, NAMES[3]);
    net.send(0, flow, Class::Request, 2, b"").unwrap();
    net.run(LIMIT, |net| !net.core(0).has_unacknowledged(flow));
}

#[test]
fn a_changed_address_framing_and_length_are_reported() {
    let mut net = segment(8, 2, 1);
    net.wiring = Wiring::Switch;
    net.idle(LIMIT);
    let Some(before) = net.core(0).members().next() else { panic!("no member") };
    assert_eq!((before.framing, before.max_frame), (None, 1514));
    changes(&mut net, 0);
    net.loss = Loss::LongerThan { node: 1, bytes: 800 };
    let endpoint = net.core(0).add_endpoint(name("asks"), 0).unwrap();
    net.connect(0, endpoint, NAMES[1]);
    net.idle(LIMIT);
    assert_eq!(changes(&mut net, 0), [(NAMES[1].into(), MemberChange::Changed)]);
    let Some(after) = net.core(0).members().next() else { panic!("no member") };
    assert_eq!((after.framing, after.max_frame), (Some(Framing::Split), 757));
}

/// The cost of watching, which docs/promises.md has: control frames a second that each node sends and receives.
#[test]
fn where_all_watch_each_node_only_sends_its_beacons() {
    let mut net = segment(9, 16, 16);
    net.idle(LIMIT);
    let sent = net.sent;
    let received = |net: &mut Net| (0..16).map(|at| net.core(at).counters().control_received).sum::<u64>();
    let before = received(&mut net);
    net.idle(Duration::from_secs(10));
    assert_eq!((net.sent - sent, received(&mut net) - before), (16 * 30, 16 * 15 * 30));
    let mut one = segment(10, 16, 1);
    one.idle(Duration::from_secs(10));
    let sent = one.sent;
    one.idle(Duration::from_secs(10));
    // Each other node is asked, and answers, when it was silent for 0.5 s.
    assert!((15 * 2 * 16..15 * 2 * 21).contains(&(one.sent - sent)), "{}", one.sent - sent);
}
