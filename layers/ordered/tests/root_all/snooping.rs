//! A switch that does not forward the group's frames to one of the members.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use am_api::Node;
use am_netns::{Bridge, BridgeOptions, Host};
use am_ordered::{Group, Level, Settings};

use crate::{LONG, Log};

const MEMBERS: usize = 3;

/// Messages of the second member. The third gets none of them as a frame.
const MESSAGES: usize = 300;

fn member(number: usize, all: &Barrier) -> (Vec<Vec<u8>>, Option<String>) {
    let name = format!("m{number}");
    let node = Node::open(&name, "xdp:am0").expect("a node");
    let group = match number {
        0 => Group::found(&node, "g", Settings::default(), Log::default()),
        _ => Group::join(&node, "g", &["m0"], Settings::default(), Log::default()),
    };
    let (mut group, mut sent, end) = (group.expect("a name"), 0, Instant::now() + LONG);
    while group.replica().0.len() < MESSAGES {
        assert!(Instant::now() < end, "{name}: {:?}", group.counters());
        group.wait(Duration::from_millis(5));
        if number == 1 && group.view().members.len() == MEMBERS && sent < MESSAGES && group.waiting() < 16 {
            sent += 1;
            group.send(Level::Agreed, format!("{sent}")).expect("room");
        }
    }
    crate::poll_until_all(&mut group, all);
    (group.replica().0.clone(), group.health())
}

#[test]
fn a_switch_that_keeps_the_groups_frames_away_is_named_and_nothing_is_lost() {
    let hosts: Vec<_> = (0..MEMBERS).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
    let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
    crate::keep_multicasts_away(&bridge, &bridge.ports()[2]);
    let all = Barrier::new(MEMBERS);
    let ends = crate::on_a_bridge(&hosts, |number| member(number, &all));
    assert!(ends.iter().all(|(log, _)| *log == ends[0].0), "one order");
    let [first, second, third] = [0, 1, 2].map(|number: usize| ends[number].1.as_deref());
    assert_eq!((first, second), (None, None));
    assert!(third.is_some_and(|why| why.contains("0b:") && why.contains("mcast_flood")), "{third:?}");
}
