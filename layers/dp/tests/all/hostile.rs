//! A peer that keeps to no rule of the protocol.

use std::time::Instant;

use am_api::{Connection, Endpoint, HandlerId, Node, tag_of};
use am_dp::{Dp, Nid, Nodes, Point, ReadError};
use proptest::test_runner::{Config, TestRunner};
use proptest::{collection, prelude::any};

use crate::common::{Graph, LONG, connect, open, poll_all, until, write};

const NAMES: [&str; 3] = ["node0", "node1", "wild"];

/// A handler, a word and a payload's length.
type Step = (u8, u16, usize);

fn open_one(network: &str, nid: u32) -> Dp<Vec<u8>> {
    let nodes = Nodes::list(NAMES, Nid(nid)).unwrap();
    Dp::new(Node::open(nodes.own_name(), network).unwrap(), nodes).unwrap()
}

/// Connect to an endpoint, and send it these, whatever they mean.
fn go_wild(graph: &mut Graph, to: &Point, steps: &[Step]) {
    let (mut endpoint, connection) = connect_wild(graph, "sim:51");
    let mut poll = |endpoint: &mut Endpoint<()>| {
        endpoint.poll(&mut ());
        poll_all(graph);
        // What the peer leaves incomplete is reported.
        while let Some(place) = graph[0].read(to).unwrap_or(None) {
            assert!(!place.is_empty() && graph[0].fsync(to, 1));
        }
    };
    for &(handler, word, len) in steps {
        let words = [u64::from(word) * if word % 7 == 0 { u64::MAX / 65_535 } else { 1 }];
        let payload = vec![handler; len];
        while let Err(error) = endpoint.try_request(connection, HandlerId(handler), &words, &payload) {
            assert!(error.is_temporary(), "{error}");
            poll(&mut endpoint);
        }
    }
    (0..50).for_each(|_| poll(&mut endpoint));
}

/// The next message, whatever is reported before it.
fn take_any(graph: &mut Graph, to: &Point) -> Vec<u8> {
    let place = until(graph, |graph| graph[0].read(to).unwrap_or(None));
    let bytes = graph[0].bytes(to, &place).unwrap().to_vec();
    assert!(graph[0].fsync(to, 1));
    bytes
}

/// Parts without a beginning, beginnings without an end, lengths that are wrong, answers to no question: the endpoint goes on, and
/// another peer's messages arrive.
#[test]
fn it_stalls_nobody() {
    let steps = collection::vec((0u8..6, any::<u16>(), 0usize..1400), 1..120);
    let mut runner =
        TestRunner::new(Config { cases: 40, max_shrink_iters: 0, failure_persistence: None, ..Config::default() });
    let result = runner.run(&steps, |steps| {
        let mut graph = vec![open_one("sim:51", 0), open_one("sim:51", 1)];
        let (to, from) = (open(&mut graph, 0, 9, 16_384), open(&mut graph, 1, 1, 4096));
        connect(&mut graph, (1, &from), 0, 9);
        go_wild(&mut graph, &to, &steps);
        // What is incomplete goes with its sender.
        write(&mut graph, (1, &from), b"from a friend");
        while take_any(&mut graph, &to) != b"from a friend" {}
        write(&mut graph, (1, &from), &[7; 16_384]);
        while take_any(&mut graph, &to) != [7; 16_384] {}
        Ok(())
    });
    result.unwrap();
}

/// A peer without a library, connected to an endpoint.
fn connect_wild(graph: &mut Graph, network: &str) -> (Endpoint<()>, Connection) {
    let node = Node::builder("wild").window(16).open(network).unwrap();
    let mut endpoint = node.endpoint_with_tag::<()>("dp.1", tag_of(NAMES)).unwrap();
    endpoint.on_unhandled(|(), _| {});
    let connection = endpoint.connect_with_tag("node0", "dp.9", tag_of(NAMES)).unwrap();
    until(graph, |_| {
        endpoint.poll(&mut ());
        endpoint.is_open(connection).then_some(())
    });
    (endpoint, connection)
}

const FIRST: HandlerId = HandlerId(1);
const MORE: HandlerId = HandlerId(2);

/// A sender that takes no refusals leaves the reader asleep.
#[test]
fn a_refusal_without_room_keeps_nobody_awake() {
    let mut graph = vec![open_one("sim:52", 0)];
    let _to = open(&mut graph, 0, 9, 4096);
    let (mut endpoint, connection) = connect_wild(&mut graph, "sim:52");
    let mut sent = 0;
    while endpoint.try_request(connection, FIRST, &[1 << 30], &[1]).is_ok() {
        sent += 1;
    }
    assert!(sent > 16, "{sent}");
    let is_asleep = |graph: &mut Graph| graph[0].prepare_wait().unwrap().then_some(());
    until(&mut graph, is_asleep);
    (0..1000).for_each(|_| _ = graph[0].poll());
    assert!(graph[0].prepare_wait().unwrap());
    // It takes them now, and hears of each.
    let (start, mut refused) = (Instant::now(), 0);
    while refused < sent {
        refused += endpoint.poll(&mut ());
        graph[0].poll();
        assert!(start.elapsed() < LONG, "{refused} of {sent}");
    }
}

/// Of one sender it is said once that messages are lost, whatever is missing.
#[test]
fn a_gap_and_an_end_are_one_loss() {
    let mut graph = vec![open_one("sim:53", 0)];
    let to = open(&mut graph, 0, 9, 16_384);
    let (mut endpoint, connection) = connect_wild(&mut graph, "sim:53");
    let mut losses = 0;
    let mut poll = |endpoint: &mut Endpoint<()>| {
        endpoint.poll(&mut ());
        losses += usize::from(matches!(graph[0].read(&to), Err(ReadError::Lost { .. })));
    };
    for (handler, word) in [(FIRST, 3000), (MORE, 999), (FIRST, 3000), (MORE, 998), (FIRST, 3000)] {
        endpoint.request(&mut (), connection, handler, &[word], &[1; 1000]).unwrap();
        while !endpoint.is_accepted(connection) {
            poll(&mut endpoint);
        }
        (0..10).for_each(|_| poll(&mut endpoint));
    }
    endpoint.close(connection);
    (0..1000).for_each(|_| poll(&mut endpoint));
    assert_eq!(losses, 1);
}
