//! A stranger on the segment: it sees the frames of a group, and sends them again, changed and forged ones in the members' names.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_api::group_frames::{GROUP_HEADER_AT, GROUP_PAYLOAD_AT};
use am_netns::{Bridge, BridgeOptions, Host, Interface, Tap};
use am_ordered::{Group, Level, Settings};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::{LONG, Log};

const MEMBERS: usize = 3;

/// Sends these frames, or as many as `AM_FORGED_FRAMES` says.
const FRAMES: usize = 30_000;

/// Frames that the stranger has seen.
const SEEN: usize = 256;

/// What a member has in the end.
struct End {
    log: Vec<Vec<u8>>,
    forged: u64,
}

/// A member sends a message once the one before is delivered, until the stranger has sent all.
fn member(number: usize, is_over: &AtomicBool, all: &Barrier) -> End {
    let name = format!("m{number}");
    let node = Node::builder(&name).segment_key(std::array::from_fn(|at| at as u8)).open("xdp:am0").expect("a node");
    // Three members, the bridge and the stranger share the processors: they may be late.
    let settings = Settings { patience: LONG, ..Settings::default() };
    let group = match number {
        0 => Group::found(&node, "g", settings, Log::default()),
        _ => Group::join(&node, "g", &["m0"], settings, Log::default()),
    };
    let mut group = group.expect("a name");
    let (mut sent, mut is_last, mut over_at) = (0, false, None);
    let ends = |log: &Log| log.0.iter().filter(|line| line.ends_with(b" last")).count();
    while ends(group.replica()) < MEMBERS {
        if is_over.load(Ordering::Relaxed) {
            let waited = over_at.get_or_insert_with(Instant::now).elapsed();
            assert!(waited < LONG, "{name}: {:?}, {}", group.counters(), node.counters());
        }
        group.wait(Duration::from_millis(10));
        if group.view().members.len() == MEMBERS && group.waiting() == 0 && !is_last {
            is_last = is_over.load(Ordering::Relaxed);
            let level = if sent % 2 == 0 { Level::Agreed } else { Level::Safe };
            let line = if is_last { format!("{number} last") } else { format!("{number} {sent}") };
            // Every third one is so long that its content goes in pieces.
            let length = if sent % 3 == 0 && !is_last { 5000 } else { 0 };
            group.send(level, format!("{line:length$}")).expect("room");
            sent += 1;
        }
    }
    crate::poll_until_all(&mut group, all);
    println!("{name}: {sent} messages, {:?}\n{}", group.counters(), node.counters());
    let counters = node.counters();
    let forged = counters.get("group_frames_forged") + counters.get("xdp_unstamped_tag");
    End { log: group.replica().0.clone(), forged }
}

/// The stranger's next frame.
fn next(rng: &mut SmallRng, seen: &[Vec<u8>], members: &[Interface]) -> Vec<u8> {
    let mut frame = seen[rng.random_range(0..seen.len())].clone();
    let to_member = members[rng.random_range(0..MEMBERS)].address();
    match rng.random_range(0..4) {
        0 => (),
        1 => (0..rng.random_range(1..4)).for_each(|_| {
            let at = rng.random_range(0..frame.len());
            frame[at] ^= 1 << rng.random_range(0..8);
        }),
        2 => {
            // In a member's name, to the sequencer or to all: any kind, any number.
            frame[6..12].copy_from_slice(&members[rng.random_range(0..MEMBERS)].address());
            let at = GROUP_HEADER_AT + 12;
            rng.fill(&mut frame[at..GROUP_PAYLOAD_AT]);
            frame[at] = rng.random_range(0..3);
            frame[at + 2..at + 4].copy_from_slice(&rng.random_range(0..MEMBERS as u16).to_be_bytes());
        }
        _ => {
            let from = rng.random_range(14..frame.len());
            rng.fill(&mut frame[from..]);
        }
    }
    if rng.random() {
        frame[..6].copy_from_slice(&to_member);
    }
    frame
}

fn stranger(host: &Host, members: &[Interface]) {
    let tap = Tap::new(&host.interface("am0").expect("an end")).expect("root");
    let (mut buffer, mut seen, end) = (vec![0; 2048], vec![], Instant::now() + LONG);
    while seen.len() < SEEN {
        assert!(Instant::now() < end, "{} frames of the group", seen.len());
        let frame = tap.receive(&mut buffer, Duration::from_secs(1)).expect("the end is up");
        seen.extend(
            frame.filter(|frame| frame[0] == 0x0b && frame.len() > GROUP_PAYLOAD_AT).map(|frame| frame.to_vec()),
        );
    }
    let frames = std::env::var("AM_FORGED_FRAMES").map_or(FRAMES, |count| count.parse().expect("a number"));
    let mut rng = SmallRng::seed_from_u64(34);
    for _ in 0..frames {
        // The frame is lost if there is no room.
        _ = tap.send(&next(&mut rng, &seen, members));
    }
    println!("{frames} frames of a stranger");
}

#[test]
fn forged_changed_and_repeated_frames_change_nothing() {
    let hosts: Vec<_> = (0..=MEMBERS).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
    let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
    let (is_over, all) = (AtomicBool::new(false), Barrier::new(MEMBERS));
    let ends: Vec<End> = thread::scope(|scope| {
        let (is_over, all) = (&is_over, &all);
        let members: Vec<_> = (0..MEMBERS)
            .zip(&hosts)
            .map(|(number, host)| scope.spawn(move || host.enter(|| member(number, is_over, all)).unwrap()))
            .collect();
        stranger(&hosts[MEMBERS], bridge.ends());
        is_over.store(true, Ordering::Relaxed);
        members.into_iter().map(|member| member.join().unwrap()).collect()
    });
    for number in 0..MEMBERS {
        let its = |line: &&Vec<u8>| line.starts_with(format!("{number} ").as_bytes());
        let lines: Vec<String> = ends[0]
            .log
            .iter()
            .filter(its)
            .map(|line| String::from_utf8(line.clone()).expect("text"))
            .map(|line| line.trim_end().to_owned())
            .collect();
        let wanted = (0..lines.len() - 1).map(|sent| format!("{number} {sent}")).chain([format!("{number} last")]);
        assert!(
            lines.iter().cloned().eq(wanted),
            "each message of {number} once, and none of the stranger's: {lines:?}"
        );
    }
    assert!(ends.iter().all(|end| end.log == ends[0].log), "one order");
    assert!(ends.iter().all(|end| end.forged > 0), "counted");
}
