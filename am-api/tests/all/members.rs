//! Events of members for endpoints: nodes that join, leave and restart. And the static table in a file.

use std::fs;
use std::time::Duration;

use am_api::{Departure, Events, MemberChange, Node, Peer};

use crate::common::fated::set_dead;
use crate::common::{LONG, Side, connect, in_memory, nodes, plain, until};

type Changes = Vec<(String, MemberChange)>;

fn watch(side: &mut Side<Changes>) {
    side.endpoint.on_members(|events, event| events.push((event.member.peer.name.to_string(), event.change)));
}

fn names(node: &Node) -> Vec<String> {
    node.members().iter().map(|member| member.peer.name.to_string()).collect()
}

#[test]
fn a_node_joins_changes_and_leaves() {
    let (mut alpha, mut beta) = nodes::<Changes, ()>(plain("alpha"), plain("beta"));
    watch(&mut alpha);
    until(&mut alpha, &mut beta, "joined", |alpha, _| !alpha.state.is_empty());
    assert_eq!(
        (&alpha.state[..], names(&alpha.node)),
        (&[("beta".into(), MemberChange::Joined)][..], vec!["beta".into()])
    );
    connect(&mut alpha, &mut beta);
    until(&mut alpha, &mut beta, "framing", |alpha, _| alpha.state.len() == 2);
    let Some(member) = alpha.node.members().pop() else { panic!("beta is gone") };
    assert_eq!((alpha.state[1].1, member.framing), (MemberChange::Changed, Some(am_api::Framing::Plain)));
    drop(beta);
    // Over shared memory the system reports the end first.
    assert!(alpha.endpoint.wait_until(&mut alpha.state, LONG, |state| state.len() == 3));
    assert!(
        matches!(alpha.state[2].1, MemberChange::Left(Departure::Farewell | Departure::Silent)),
        "{:?}",
        alpha.state
    );
    assert_eq!(names(&alpha.node), Vec::<String>::new());
}

#[test]
fn each_endpoint_that_watches_learns_of_all_members() {
    let (left, right) = in_memory();
    let (mut alpha, mut beta) = (Side::<Changes>::open(plain("alpha"), left), Side::<()>::open(plain("beta"), right));
    watch(&mut alpha);
    until(&mut alpha, &mut beta, "joined", |alpha, _| !alpha.state.is_empty());
    let (mut late, mut seen) = (alpha.node.endpoint::<Changes>("late").unwrap(), vec![]);
    late.on_members(|events, event| events.push((event.member.peer.name.to_string(), event.change)));
    assert_eq!(late.wait_events(LONG), Events::MEMBERS);
    late.poll(&mut seen);
    assert_eq!(seen, [("beta".into(), MemberChange::Joined)], "it was there before");
    alpha.node.remove_peer("beta").unwrap();
    until(&mut alpha, &mut beta, "forgotten", |alpha, _| alpha.state.len() == 2);
    late.poll(&mut seen);
    assert_eq!(seen[1], ("beta".into(), MemberChange::Left(Departure::Forgotten)));
    assert_eq!(alpha.state, seen);
}

#[test]
fn one_that_is_not_polled_stays_and_one_that_dies_is_silent_and_joins_again() {
    let (left, right) = in_memory();
    let quick = plain("alpha").member_timeout(Duration::from_millis(200));
    let (mut alpha, mut beta) = (Side::<Changes>::open(quick, left), Side::<()>::open(plain("beta"), right));
    watch(&mut alpha);
    until(&mut alpha, &mut beta, "joined", |alpha, _| !alpha.state.is_empty());
    let silent = alpha.endpoint.wait_until(&mut alpha.state, Duration::from_secs(1), |state| state.len() == 2);
    assert!(!silent, "its end of the wire is open");
    set_dead(true);
    assert!(alpha.endpoint.wait_until(&mut alpha.state, LONG, |state| state.len() == 2));
    assert_eq!(alpha.state[1].1, MemberChange::Left(Departure::Silent));
    set_dead(false);
    until(&mut alpha, &mut beta, "joined again", |alpha, _| alpha.state.len() == 3);
    assert_eq!(alpha.state[2].1, MemberChange::Joined);
}

fn udp(name: &str) -> Side<()> {
    let transport = am_api::transports::open("udp:127.0.0.1:0").unwrap_or_else(|error| panic!("{error}"));
    Side::open(plain(name), transport)
}

fn known(node: &Node) -> Vec<String> {
    let mut names: Vec<String> = node.peers().iter().map(|peer: &Peer| peer.name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn a_file_of_peers_is_loaded_and_loaded_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("peers");
    let (mut beta, mut gamma) = (udp("beta"), udp("gamma"));
    let places = [beta.node.local_address(), gamma.node.local_address()];
    fs::write(&path, format!("# the segment\nbeta {}\nstatic 02:00:00:00:00:07\n", places[0])).unwrap();
    let alpha = Node::open("alpha", "udp:127.0.0.1:0").unwrap();
    alpha.load_peers(&path).unwrap();
    let mut alpha = Side { endpoint: alpha.endpoint::<()>("main").unwrap(), node: alpha, state: () };
    until(&mut alpha, &mut beta, "found", |alpha, _| known(&alpha.node) == ["beta", "static"]);
    connect(&mut alpha, &mut beta);
    fs::write(&path, format!("beta {}\ngamma {}\n", places[0], places[1])).unwrap();
    alpha.node.load_peers(&path).unwrap();
    until(&mut alpha, &mut gamma, "found", |alpha, _| known(&alpha.node) == ["beta", "gamma", "static"]);
}

#[test]
fn an_error_in_a_file_of_peers_names_file_and_line_and_leaves_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("peers");
    let alpha = udp("alpha");
    let load = |text: &str| {
        fs::write(&path, text).unwrap();
        alpha.node.load_peers(&path).map_err(|error| error.to_string())
    };
    let error = load("beta 02:00:00:00:00:07\n\ngamma\n").unwrap_err();
    assert!(error.starts_with(&format!("{}, line 3: write a name and an address", path.display())), "{error}");
    assert_eq!(known(&alpha.node), Vec::<String>::new(), "nothing was loaded");
    let error = load("beta udp:nowhere\n").unwrap_err();
    assert!(error.contains("line 1: `udp:nowhere`"), "{error}");
    assert!(load("beta 02:00:00:00:00:07\n").is_ok());
    assert_eq!(known(&alpha.node), ["beta"]);
    let missing = alpha.node.load_peers(directory.path().join("none")).unwrap_err();
    assert!(missing.to_string().contains("none: No such file"), "{missing}");
}
