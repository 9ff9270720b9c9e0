//! Ways of stamped messages to the members besides one multicast of the sequencer: copies on a bridge that forwards no multicast, and numbers that
//! senders fetch. By the program while the sequencer's process does nothing, and by the process.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use am_api::Node;
use am_netns::{Bridge, BridgeOptions, Host};
use am_ordered::{Dissemination, Group, Level, Settings};

use crate::stamping::{MEMBERS, MESSAGES, of_a_group, reason_not_to};
use crate::{LONG, Log, Seen};

/// The copies of a frame share their bytes in the generic path.
const NATIVE: &str = "xdp:am0,attach=native";

/// A veth in the driver's path keeps what `XDP_TX` sends until its other end runs an XDP program, or gets a frame by another way. The generic path
/// sends at once.
const GENERIC: &str = "xdp:am0,attach=generic";

const ALL: u64 = (MESSAGES * (MEMBERS - 1)) as u64;

fn members(dissemination: Dissemination, stamp_in_process: bool) {
    let is_copies = dissemination == Dissemination::Copies;
    let settings = Settings { dissemination, stamp_in_process, ..Settings::default() };
    let seen = of_a_group(if is_copies { NATIVE } else { GENERIC }, &settings, !is_copies);
    for member in &seen {
        println!("{} stamped, {:?}", member.stamped, member.counters);
    }
    let (stamped, is_program) = (seen[0].stamped, reason_not_to(&settings).is_none());
    assert_eq!(is_program, stamped >= ALL, "{stamped} stamped");
    assert!(seen.iter().all(|member| member.counters.protocol.repaired < ALL / 20), "hardly any is lost");
}

#[test]
fn the_program_sends_copies_where_the_bridge_forwards_no_multicast() {
    members(Dissemination::Copies, false);
}

#[test]
fn the_process_sends_copies_where_the_bridge_forwards_no_multicast() {
    members(Dissemination::Copies, true);
}

#[test]
fn senders_fetch_numbers_of_the_program() {
    members(Dissemination::Fetch, false);
}

#[test]
fn senders_fetch_numbers_of_the_process() {
    members(Dissemination::Fetch, true);
}

/// A member that sends, and polls until all have all.
fn member(number: usize, settings: Settings, all: &Barrier) -> Seen {
    let name = format!("m{number}");
    let node = Node::builder(&name).segment_key(std::array::from_fn(|at| at as u8)).open(NATIVE).expect("a node");
    let group = match number {
        0 => Group::found(&node, "g", settings, Log::default()),
        _ => Group::join(&node, "g", &["m0"], settings, Log::default()),
    };
    let (mut group, mut sent, end) = (group.expect("a name"), 0, Instant::now() + LONG);
    while group.replica().0.len() < MESSAGES * MEMBERS {
        assert!(Instant::now() < end, "{name} has {}: {:?}", group.replica().0.len(), group.counters());
        group.wait(Duration::from_millis(5));
        if group.view().members.len() == MEMBERS && sent < MESSAGES && group.waiting() < 8 {
            let level = if sent % 2 == 0 { Level::Safe } else { Level::Agreed };
            group.send(level, format!("{name} {sent}")).expect("room");
            sent += 1;
        }
    }
    crate::poll_until_all(&mut group, all);
    Seen::of(&node, &group)
}

/// Ports lose one frame in a hundred. The group has a key.
fn keeps_one_order(dissemination: Dissemination, stamp_in_process: bool) {
    let hosts: Vec<_> = (0..MEMBERS).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
    let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
    crate::sixteen::lose(&bridge);
    let settings = Settings { dissemination, stamp_in_process, patience: LONG, ..Settings::default() };
    let all = Barrier::new(MEMBERS);
    let seen = crate::on_a_bridge(&hosts, |number| member(number, settings.clone(), &all));
    for member in &seen {
        println!("{} stamped, {:?}", member.stamped, member.counters);
    }
    assert!(seen.iter().all(|member| member.log == seen[0].log), "one order");
    let of =
        |name: &str| seen[0].log.iter().filter(|line| line.starts_with(name.as_bytes())).cloned().collect::<Vec<_>>();
    for name in (0..MEMBERS).map(|number| format!("m{number} ")) {
        assert!(of(&name).into_iter().eq((0..MESSAGES).map(|at| format!("{name}{at}").into_bytes())), "{name}");
    }
    assert!(seen.iter().any(|member| member.counters.protocol.repaired > 0), "none was lost");
    assert!(seen.iter().any(|member| member.counters.frames > member.counters.protocol.repaired), "few frames arrive");
    assert_eq!(seen.iter().any(|member| member.stamped > 0), !stamp_in_process);
}

#[test]
fn copies_keep_one_order_when_frames_are_lost() {
    keeps_one_order(Dissemination::Copies, false);
    keeps_one_order(Dissemination::Copies, true);
}

#[test]
fn fetched_numbers_keep_one_order_when_frames_are_lost() {
    keeps_one_order(Dissemination::Fetch, false);
    keeps_one_order(Dissemination::Fetch, true);
}
