//! Groups over `xdp:`, in network namespaces on one bridge. Needs root.

mod dissemination;
mod forged;
mod long;
mod sixteen;
mod snooping;

use std::process::Command;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_netns::{Bridge, BridgeOptions, Host, Interface};
use am_ordered::{Counters, Delivered, Group, Level, Replica, Settings};

const LONG: Duration = Duration::from_secs(30);

/// Members.
const MEMBERS: usize = 4;

/// Messages of each member but the sequencer.
const MESSAGES: usize = 50;

/// Held by the group whose sequencer's process does nothing.
static TURN: Mutex<()> = Mutex::new(());

#[derive(Default)]
struct Log(Vec<Vec<u8>>);

impl Replica for Log {
    fn deliver(&mut self, message: &Delivered<'_>) {
        self.0.push(message.payload.into());
    }

    fn save(&self) -> Vec<u8> {
        let with_length = |line: &Vec<u8>| [&(line.len() as u64).to_be_bytes()[..], line].concat();
        self.0.iter().flat_map(with_length).collect()
    }

    fn restore(&mut self, mut state: &[u8]) {
        self.0.clear();
        while let Some((length, rest)) = state.split_first_chunk() {
            let (line, rest) = rest.split_at(u64::from_be_bytes(*length) as usize);
            self.0.push(line.into());
            state = rest;
        }
    }
}

/// What a member of a test has seen.
struct Seen {
    log: Vec<Vec<u8>>,
    stamped: u64,
    counters: Counters,
}

impl Seen {
    fn of(node: &Node, group: &Group<Log>) -> Seen {
        Seen { log: group.replica().0.clone(), stamped: node.counters().get("xdp_stamped"), counters: group.counters() }
    }
}

/// Have the bridge forward no multicast to this port.
fn keep_multicasts_away(bridge: &Bridge, port: &Interface) {
    let keep = || Command::new("bridge").args(["link", "set", "dev", port.name(), "mcast_flood", "off"]).status();
    assert!(bridge.switch().enter(keep).expect("a namespace").expect("a program").success());
}

/// Run members on hosts of their own, on one bridge.
fn on_a_bridge<T: Send>(hosts: &[Host], member: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let member = &member;
        let members: Vec<_> = (0..hosts.len())
            .zip(hosts)
            .map(|(number, host)| scope.spawn(move || host.enter(|| member(number)).unwrap()))
            .collect();
        members.into_iter().map(|member| member.join().unwrap()).collect()
    })
}

/// Poll until all members have come here: the others fetch from this one what they lack.
fn poll_until_all(group: &mut Group<Log>, all: &Barrier) {
    thread::scope(|scope| {
        let waits = scope.spawn(|| all.wait());
        while !waits.is_finished() {
            group.wait(Duration::from_millis(5));
        }
    });
}

/// A member that sends, and delivers while the sequencer's process does nothing.
fn sends(name: &str, transport: &str, settings: &Settings, [ready, quiet, done]: [&Barrier; 3]) -> Seen {
    let node = Node::open(name, transport).expect("an interface");
    let mut group = Group::join(&node, "g", &["m0"], settings.clone(), Log::default()).expect("a name");
    let end = Instant::now() + LONG;
    while group.view().members.len() < MEMBERS || !group.is_primary() {
        assert!(Instant::now() < end, "{:?}", group.view());
        group.poll();
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
fn is_quiet(transport: &str, settings: &Settings, [ready, quiet, done]: [&Barrier; 3], is_program: &mut bool) -> Seen {
    let node = Node::open("m0", transport).expect("an interface");
    let mut group = Group::found(&node, "g", settings.clone(), Log::default()).expect("a name");
    let end = Instant::now() + LONG;
    while group.view().members.len() < MEMBERS {
        assert!(Instant::now() < end, "{:?}", group.view());
        group.poll();
    }
    poll_until_all(&mut group, ready);
    *is_program = group.stamps_in_network().is_ok();
    quiet.wait();
    if *is_program {
        done.wait();
    }
    let has_all = group.wait_until(LONG, |log| log.0.len() == MESSAGES * (MEMBERS - 1));
    let seen = Seen::of(&node, &group);
    assert!(has_all, "{} of them, {:?}, {}", seen.log.len(), seen.counters, node.counters());
    if !*is_program {
        poll_until_all(&mut group, done);
    }
    seen
}

/// What the members of a group with these settings and this transport have seen, and whether the program has stamped. The bridge may not forward
/// the group's multicasts.
fn of_a_group(transport: &str, settings: Settings, forwards: bool) -> (Vec<Seen>, bool) {
    // One at a time: a view that changes late changes after the long silence.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let hosts: Vec<_> = (0..MEMBERS).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
    let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
    if !forwards {
        bridge.ports().iter().for_each(|port| keep_multicasts_away(&bridge, port));
    }
    // Nothing ends the sequencer's lease. A view whose messages were lost on a busy machine changes after it, though.
    let settings = Settings { silence: LONG / 4, patience: LONG, ..settings };
    let barriers = [(); 3].map(|()| Barrier::new(MEMBERS));
    let is_program = Mutex::new(false);
    let seen = on_a_bridge(&hosts, |number| match number {
        0 => is_quiet(transport, &settings, barriers.each_ref(), &mut is_program.lock().expect("one thread")),
        number => sends(&format!("m{number}"), transport, &settings, barriers.each_ref()),
    });
    assert!(seen.iter().all(|member| member.log == seen[0].log), "one order");
    (seen, is_program.into_inner().expect("one thread"))
}

#[test]
fn messages_get_their_numbers_while_the_sequencers_process_does_nothing() {
    let (seen, is_program) = of_a_group("xdp:am0", Settings::default(), true);
    let (stamped, echoed) = (seen[0].stamped, seen.iter().map(|member| member.counters.echoed).sum::<u64>());
    println!("{stamped} stamped by the program, {echoed} echoed");
    let all = (MESSAGES * (MEMBERS - 1)) as u64;
    assert_eq!(is_program, stamped >= all, "{stamped} stamped");
    assert_eq!(is_program, echoed >= all, "{echoed} echoed");
}

#[test]
fn the_sequencers_process_stamps_if_the_settings_say_so() {
    let (seen, is_program) = of_a_group("xdp:am0", Settings { stamp_in_process: true, ..Settings::default() }, true);
    let all = (MESSAGES * (MEMBERS - 1)) as u64;
    assert!(!is_program && seen.iter().all(|member| (member.stamped, member.counters.echoed) == (0, 0)));
    assert!(seen[1..].iter().all(|member| member.counters.frames >= all - member.counters.protocol.repaired));
}
