//! The program gives the numbers while the sequencer's process does nothing, if the kernel has what it needs. Otherwise the group says what is
//! missing, and the process gives them.

use std::fs;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use am_api::Node;
use am_netns::{Bridge, BridgeOptions, Host};
use am_ordered::{Dissemination, Group, Level, Settings};

use crate::{LONG, Log, Seen, keep_multicasts_away, on_a_bridge, poll_until_all};

/// Members.
pub(crate) const MEMBERS: usize = 3;

/// Messages of each member but the sequencer.
pub(crate) const MESSAGES: usize = 50;

/// Held by the group whose sequencer's process does nothing.
static TURN: Mutex<()> = Mutex::new(());

/// A part of [`Group::stamps_in_network`]'s reason, if the process has to stamp: because of the settings, or of this kernel.
pub(crate) fn reason_not_to(settings: &Settings) -> Option<&'static str> {
    if settings.stamp_in_process {
        return Some("the group's settings");
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap());
    let kernel = (numbers.next().unwrap(), numbers.next().unwrap());
    if kernel < (5, 18) {
        return Some("an XDP program that stamps needs 5.18");
    }
    let says_too_little = kernel < (6, 3) && settings.dissemination == Dissemination::Copies;
    says_too_little.then_some("does not say whether the driver sends redirected frames: 6.3 does")
}

#[track_caller]
fn check(stamps: &Result<(), String>, reason: Option<&str>) {
    match (stamps, reason) {
        (Ok(()), None) => (),
        (Err(why), Some(reason)) if why.contains(reason) => (),
        _ => panic!("{stamps:?}, not {reason:?}"),
    }
}

/// A member that sends, and delivers while the sequencer's process does nothing.
fn sends(name: &str, transport: &str, settings: &Settings, [ready, quiet, done]: [&Barrier; 3]) -> Seen {
    let node = Node::open(name, transport).expect("an interface");
    let mut group = Group::join(&node, "g", &["m0"], settings.clone(), Log::default()).expect("a name");
    let end = Instant::now() + LONG;
    while group.view().members.len() < MEMBERS || !group.is_primary() {
        assert!(Instant::now() < end, "{:?}", group.view());
        group.wait(Duration::from_millis(5));
    }
    ready.wait();
    quiet.wait();
    for number in 0..MESSAGES {
        group.send(Level::Agreed, format!("{name} {number}")).expect("room");
    }
    let has_all = group.wait_until(LONG, |log| log.0.len() == MESSAGES * (MEMBERS - 1));
    let seen = Seen::of(&node, &group);
    assert!(has_all, "{} of them, {:?}, {}", seen.log.len(), seen.counters, node.counters());
    done.wait();
    seen
}

/// The founder, which gives the numbers.
fn is_quiet(transport: &str, settings: &Settings, [ready, quiet, done]: [&Barrier; 3]) -> Seen {
    let node = Node::open("m0", transport).expect("an interface");
    let mut group = Group::found(&node, "g", settings.clone(), Log::default()).expect("a name");
    let end = Instant::now() + LONG;
    while group.view().members.len() < MEMBERS {
        assert!(Instant::now() < end, "{:?}", group.view());
        group.wait(Duration::from_millis(5));
    }
    poll_until_all(&mut group, ready);
    let is_program = group.stamps_in_network().is_ok();
    quiet.wait();
    if is_program {
        done.wait();
    }
    let has_all = group.wait_until(LONG, |log| log.0.len() == MESSAGES * (MEMBERS - 1));
    let seen = Seen::of(&node, &group);
    assert!(has_all, "{} of them, {:?}, {}", seen.log.len(), seen.counters, node.counters());
    if !is_program {
        poll_until_all(&mut group, done);
    }
    seen
}

/// What the members of a group with these settings and this transport have seen. The bridge may not forward the group's multicasts.
pub(crate) fn of_a_group(transport: &str, settings: &Settings, forwards: bool) -> Vec<Seen> {
    // One at a time: a view that changes late changes after the long silence.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let hosts: Vec<_> = (0..MEMBERS).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
    let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
    if !forwards {
        bridge.ports().iter().for_each(|port| keep_multicasts_away(&bridge, port));
    }
    // Nothing ends the sequencer's lease. A view whose messages were lost on a busy machine changes after it, though.
    let settings = Settings { silence: LONG / 4, patience: LONG, ..settings.clone() };
    let barriers = [(); 3].map(|()| Barrier::new(MEMBERS));
    let seen = on_a_bridge(&hosts, |number| match number {
        0 => is_quiet(transport, &settings, barriers.each_ref()),
        number => sends(&format!("m{number}"), transport, &settings, barriers.each_ref()),
    });
    assert!(seen.iter().all(|member| member.log == seen[0].log), "one order");
    seen.iter().for_each(|member| check(&member.stamps, reason_not_to(&settings)));
    seen
}

#[test]
fn messages_get_their_numbers_while_the_sequencers_process_does_nothing() {
    let settings = Settings::default();
    let (seen, is_program) = (of_a_group("xdp:am0", &settings, true), reason_not_to(&settings).is_none());
    let (stamped, echoed) = (seen[0].stamped, seen.iter().map(|member| member.counters.echoed).sum::<u64>());
    println!("{stamped} stamped by the program, {echoed} echoed");
    let all = (MESSAGES * (MEMBERS - 1)) as u64;
    assert_eq!(is_program, stamped >= all, "{stamped} stamped");
    assert_eq!(is_program, echoed >= all, "{echoed} echoed");
}

#[test]
fn the_sequencers_process_stamps_if_the_settings_say_so() {
    let seen = of_a_group("xdp:am0", &Settings { stamp_in_process: true, ..Settings::default() }, true);
    let all = (MESSAGES * (MEMBERS - 1)) as u64;
    assert!(seen.iter().all(|member| (member.stamped, member.counters.echoed) == (0, 0)));
    assert!(seen[1..].iter().all(|member| member.counters.frames >= all - member.counters.protocol.repaired));
}
