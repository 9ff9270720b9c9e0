//! Groups of nodes in one process.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use am_api::Node;
use am_ordered::{Delivered, Dissemination, Event, Group, Level, Replica, SendError, Settings};

const LONG: Duration = Duration::from_secs(20);

/// All messages, with their senders, and what else happened.
#[derive(Default)]
struct Told {
    messages: Vec<(String, Vec<u8>)>,
    events: Vec<Event>,
    own: Vec<u64>,
}

impl Replica for Told {
    fn deliver(&mut self, message: &Delivered<'_>) {
        self.messages.push((message.from.into(), message.payload.into()));
        self.own.extend(message.own.map(|_| message.number));
    }

    fn save(&self) -> Vec<u8> {
        self.messages
            .iter()
            .map(|(from, said)| format!("{from}:{}\n", String::from_utf8_lossy(said)))
            .collect::<String>()
            .into()
    }

    fn restore(&mut self, state: &[u8]) {
        let lines = String::from_utf8_lossy(state).into_owned();
        let pairs = lines.lines().map(|line| line.split_once(':').expect("a pair"));
        self.messages = pairs.map(|(from, said)| (from.into(), said.into())).collect();
    }

    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
}

/// Poll all until it is so.
fn until(groups: &mut [Group<Told>], mut wanted: impl FnMut(&[Group<Told>]) -> bool) {
    let end = Instant::now() + LONG;
    while !wanted(groups) {
        assert!(Instant::now() < end, "{:?}", groups.iter().map(|group| group.view().clone()).collect::<Vec<_>>());
        groups.iter_mut().for_each(|group| _ = group.poll());
    }
}

fn three(on: &str) -> Vec<Group<Told>> {
    three_with(on, &Settings::default())
}

fn three_with(on: &str, settings: &Settings) -> Vec<Group<Told>> {
    let open = |name: &str| Node::open(name, on).expect("a node");
    let alpha = Group::found(&open("alpha"), "g", settings.clone(), Told::default()).expect("a name");
    let joins = |name| Group::join(&open(name), "g", &["alpha"], settings.clone(), Told::default()).expect("a name");
    let mut groups = vec![alpha, joins("beta"), joins("gamma")];
    until(&mut groups, |groups| groups.iter().all(|group| group.view().members.len() == 3 && group.is_primary()));
    groups
}

fn all_in_one_order(on: &str) -> [Group<Told>; 3] {
    all_in_one_order_with(on, &Settings::default())
}

fn all_in_one_order_with(on: &str, settings: &Settings) -> [Group<Told>; 3] {
    // On a busy machine this thread, which has all members, may be silent for 100 ms.
    let settings = Settings { silence: Duration::from_secs(2), ..settings.clone() };
    let mut groups = three_with(on, &settings);
    let epoch = groups[0].view().epoch;
    for number in 0..100 {
        for group in &mut groups {
            let level = if number % 3 == 0 { Level::Safe } else { Level::Agreed };
            group.send(level, format!("{number}")).expect("room");
        }
        groups.iter_mut().for_each(|group| _ = group.poll());
    }
    until(&mut groups, |groups| groups.iter().all(|group| group.replica().messages.len() == 300));
    let first = groups[0].replica();
    assert!(groups.iter().all(|group| group.replica().messages == first.messages), "one order");
    assert!(groups.iter().all(|group| group.replica().own.len() == 100 && group.waiting() == 0));
    assert!(groups.iter().all(|group| group.view().epoch == epoch), "no other view repairs what is missing");
    for name in ["alpha", "beta", "gamma"] {
        let of = first.messages.iter().filter(|(from, _)| from == name);
        assert!(
            of.map(|(_, said)| String::from_utf8_lossy(said)).eq((0..100).map(|number| number.to_string())),
            "{name}"
        );
    }
    groups.try_into().unwrap_or_else(|_| panic!("three"))
}

#[test]
fn all_in_one_order_on_the_simulated_network() {
    let groups = all_in_one_order("sim:3401");
    let counters = groups.each_ref().map(Group::counters);
    assert!(counters.iter().all(|counters| counters.echoed == 0), "the host stamps: {counters:?}");
    assert!(counters[1..].iter().all(|counters| counters.frames > 250), "as frames: {counters:?}");
}

#[test]
fn all_in_one_order_by_copies_and_by_fetched_numbers_on_a_network_that_loses_frames() {
    for (dissemination, seed) in
        [(Dissemination::Copies, 3411), (Dissemination::Fetch, 3412), (Dissemination::Fetch, 3413)]
    {
        let settings = Settings { dissemination, ..Settings::default() };
        let groups = all_in_one_order_with(&format!("sim:{seed},loss=0.02"), &settings);
        let counters = groups.each_ref().map(Group::counters);
        assert!(counters.iter().any(|counters| counters.protocol.repaired > 0), "none was lost: {counters:?}");
        assert!(counters[1..].iter().all(|counters| counters.frames > 200), "as frames: {counters:?}");
    }
}

#[test]
fn all_in_one_order_over_shared_memory() {
    all_in_one_order(&format!("shm:am-ordered-order-{}", std::process::id()));
}

#[test]
fn long_messages_keep_their_place() {
    let mut groups = three("sim:3402");
    let long: Vec<u8> = (0..600_000_u32).map(|at| at as u8).collect();
    groups[1].send(Level::Safe, &long).expect("room");
    groups[2].send(Level::Agreed, "short").expect("room");
    until(&mut groups, |groups| groups.iter().all(|group| group.replica().messages.len() == 2));
    let first = groups[0].replica();
    assert!(groups.iter().all(|group| group.replica().messages == first.messages));
    assert!(first.messages.iter().any(|(_, said)| *said == long));
}

/// A sender delivers its own messages as soon as they have their places. For that it does not send faster than the others receive.
#[test]
fn long_messages_wait_for_those_that_receive_them() {
    const COUNT: usize = 150;
    let mut groups = three(&format!("shm:am-ordered-long-{}", std::process::id()));
    let (long, mut sent, end) = (vec![7; 600_000], 0, Instant::now() + LONG);
    while groups.iter().any(|group| group.replica().messages.len() < COUNT) {
        assert!(Instant::now() < end, "{:?}", groups.iter().map(Group::counters).collect::<Vec<_>>());
        while sent < COUNT && groups[1].waiting() < 4 && groups[1].send(Level::Agreed, &long).is_ok() {
            sent += 1;
        }
        groups.iter_mut().for_each(|group| _ = group.poll());
    }
    let counters = groups.iter().map(Group::counters).collect::<Vec<_>>();
    assert!(counters.iter().all(|counters| counters.dropped < 3 && counters.protocol.repaired < 3), "{counters:?}");
}

#[test]
fn a_member_that_leaves_has_sent_all_and_the_others_go_on() {
    let mut groups = three("sim:3403");
    let mut gamma = groups.pop().expect("three");
    gamma.send(Level::Safe, "last").expect("room");
    let leaves = std::thread::scope(|_| {
        // The others are polled by hand meanwhile: one thread runs all nodes of a simulated network.
        let end = Instant::now() + LONG;
        while gamma.waiting() > 0 {
            assert!(Instant::now() < end);
            gamma.poll();
            groups.iter_mut().for_each(|group| _ = group.poll());
        }
        gamma
    });
    drop(leaves);
    until(&mut groups, |groups| groups.iter().all(|group| group.replica().messages.len() == 1));
    until(&mut groups, |groups| groups.iter().all(|group| group.view().members.len() == 2 && group.is_primary()));
}

#[test]
fn too_many_waiting_messages_are_refused_and_nothing_is_lost() {
    let node = Node::open("alone", "sim:3404").expect("a node");
    let settings = Settings { capacity: 16, ..Settings::default() };
    let mut group = Group::join(&node, "g", &["nobody"], settings, Told::default()).expect("a name");
    let sent = (0..100).take_while(|_| group.send(Level::Agreed, "x").is_ok()).count();
    assert_eq!((sent, group.send(Level::Agreed, "x")), (32, Err(SendError::Full(32))));
    let (needs, most) = (1 << 20, (1 << 20) - 256);
    assert_eq!(group.send(Level::Agreed, vec![0; needs]), Err(SendError::TooLong { needs, most }));
}

#[test]
fn a_process_joins_with_a_state_that_is_longer_than_a_message() {
    let said = vec![b'x'; 3 << 20];
    let told = Told { messages: vec![("alpha".into(), said.clone())], ..Told::default() };
    let open = |name: &str, most| Node::builder(name).max_message(most).open("sim:35").expect("a node");
    let alpha = Group::found(&open("alpha", 1 << 20), "g", Settings::default(), told).expect("a name");
    let mut groups = vec![alpha];
    // One accepts no message longer than a frame.
    for (name, most) in [("beta", 1 << 20), ("gamma", 0)] {
        let node = open(name, most);
        groups.push(Group::join(&node, "g", &["alpha"], Settings::default(), Told::default()).expect("a name"));
    }
    until(&mut groups, |groups| groups.iter().all(|group| group.view().members.len() == 3));
    groups.iter().for_each(|group| assert!(group.replica().messages == [("alpha".into(), said.clone())]));
}

/// Poll all until the last one says this of its health.
fn until_it_says(groups: &mut [Group<Told>], what: &str) {
    until(groups, |groups| groups.last().and_then(Group::health).is_some_and(|trouble| trouble.contains(what)));
}

#[test]
fn a_process_that_cannot_join_says_why() {
    let (alpha, beta) =
        (Node::open("alpha", "sim:3421").expect("a node"), Node::open("beta", "sim:3421").expect("a node"));
    let joins = |name: &str, contacts: &[&str]| {
        Group::join(&beta, name, contacts, Settings::default(), Told::default()).expect("a name")
    };
    let found = |name: &str| Group::found(&alpha, name, Settings::default(), Told::default()).expect("a name");
    until_it_says(&mut [joins("g", &[])], "no member of the group to ask");
    until_it_says(&mut [joins("g", &["nobody"])], "nothing leaves for nobody");
    until_it_says(&mut [found("another"), joins("g", &["alpha"])], "nothing leaves for alpha");
    // Both ask each other.
    let asks = Group::join(&alpha, "g", &["beta"], Settings::default(), Told::default()).expect("a name");
    until_it_says(&mut [asks, joins("g", &["alpha"])], "alpha does not let it in");
    let mut groups = [found("g"), joins("g", &["alpha"])];
    until(&mut groups, |groups| groups[1].view().members.len() == 2 && groups[1].health().is_none());
}

#[test]
fn members_that_do_not_reach_each_other_say_so() {
    let ports = [(); 3].map(|()| am_netns::free_port(Ipv4Addr::LOCALHOST));
    let on = |own: usize, peers: &[usize]| {
        let peers: String = peers.iter().map(|peer| format!(",peer=127.0.0.1:{}", ports[*peer])).collect();
        Node::open(&format!("m{own}"), &format!("udp:127.0.0.1:{}{peers}", ports[own])).expect("a node")
    };
    let nodes = [on(0, &[1, 2]), on(1, &[0]), on(2, &[0])];
    let joins = |node| Group::join(node, "g", &["m0"], Settings::default(), Told::default()).expect("a name");
    let first = Group::found(&nodes[0], "g", Settings::default(), Told::default()).expect("a name");
    let mut groups = [first, joins(&nodes[1]), joins(&nodes[2])];
    until(&mut groups, |groups| groups.iter().all(|group| group.view().members.len() == 3));
    groups[2].send(Level::Safe, vec![7; 5000]).expect("room");
    until_it_says(&mut groups, "nothing leaves for m1");
    until(&mut groups, |groups| groups.iter().all(|group| group.replica().messages.len() == 1));
    assert_eq!(groups[0].health(), None);
}

#[test]
fn a_member_without_the_others_says_what_to_do() {
    let nodes = ["alpha", "beta"].map(|name| Node::open(name, "sim:3422").expect("a node"));
    let first = Group::found(&nodes[0], "g", Settings::default(), Told::default()).expect("a name");
    let second = Group::join(&nodes[1], "g", &["alpha"], Settings::default(), Told::default()).expect("a name");
    let mut groups = vec![first, second];
    until(&mut groups, |groups| groups.iter().all(|group| group.view().members.len() == 2 && group.health().is_none()));
    // As a crash does.
    groups.pop();
    until_it_says(&mut groups, "no majority of the members alpha, beta was heard");
    assert!(groups[0].health().is_some_and(|said| said.contains("`Settings::tie_break`")), "{:?}", groups[0].health());
}

#[test]
fn two_members_of_one_name_are_named() {
    let open = |name: &str| Node::open(name, "sim:3423").expect("a node");
    let (alpha, gamma, beta) = (open("alpha"), open("gamma"), open("beta"));
    let joins = |node: &Node| Group::join(node, "g", &["alpha"], Settings::default(), Told::default()).expect("a name");
    let first = Group::found(&alpha, "g", Settings::default(), Told::default()).expect("a name");
    let mut groups = vec![first, joins(&gamma), joins(&beta)];
    until(&mut groups, |groups| groups.iter().all(|group| group.view().members.len() == 3));
    // It crashes, and begins again.
    groups.pop();
    drop(beta);
    let beta = open("beta");
    groups.insert(0, joins(&beta));
    until_it_says(&mut groups, "two members are called beta");
    until(&mut groups, |groups| groups.iter().all(|group| group.view().members.len() == 3 && group.health().is_none()));
}
