//! Messages of many frames.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use am_api::Node;
use am_netns::{Bridge, BridgeOptions, Host};
use am_ordered::{Group, Level, Settings};

use crate::{LONG, Log};

const MESSAGES: usize = 8;

/// A member sends its messages, and delivers until it has all.
fn member(number: usize, members: usize, all: &Barrier) -> Vec<Vec<u8>> {
    let name = format!("m{number}");
    let node = Node::builder(&name).max_message(2 << 20).open("xdp:am0").expect("a node");
    let group = match number {
        0 => Group::found(&node, "g", Settings::default(), Log::default()),
        _ => Group::join(&node, "g", &["m0"], Settings::default(), Log::default()),
    };
    let (mut group, mut sent, end) = (group.expect("a name"), 0, Instant::now() + LONG);
    while group.replica().0.len() < members * MESSAGES {
        assert!(Instant::now() < end, "{name} has {}: {:?}", group.replica().0.len(), group.counters());
        group.wait(Duration::from_millis(10));
        while sent < MESSAGES && group.view().members.len() == members {
            let level = if sent % 2 == 0 { Level::Agreed } else { Level::Safe };
            let payload: Vec<u8> =
                (0..1_u32 << 20).map(|at| (at / 7) as u8 ^ (number * MESSAGES + sent) as u8).collect();
            group.send(level, payload).expect("room for 8 MiB");
            sent += 1;
        }
    }
    assert_eq!(group.view().members.len(), members, "a busy member stays one");
    crate::poll_until_all(&mut group, all);
    println!("{name}: epoch {}, {:?}", group.view().epoch.0, group.counters());
    group.replica().0.clone()
}

#[test]
fn long_messages_of_both_members_arrive_in_one_order() {
    arrive_in_one_order(2);
}

#[test]
fn long_messages_of_four_members_arrive_in_one_order() {
    arrive_in_one_order(4);
}

fn arrive_in_one_order(members: usize) {
    let hosts: Vec<_> = (0..members).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
    let _bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
    let all = Barrier::new(members);
    let logs = crate::on_a_bridge(&hosts, |number| member(number, members, &all));
    assert!(logs.iter().all(|log| *log == logs[0]), "one order");
    let mut marks: Vec<u8> = logs[0].iter().map(|payload| payload[0]).collect();
    marks.sort_unstable();
    assert!(marks.into_iter().map(usize::from).eq(0..members * MESSAGES), "each once");
}
