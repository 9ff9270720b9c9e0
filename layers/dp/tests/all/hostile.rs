//! A peer that keeps to no rule of the protocol.

use am_api::{HandlerId, Node, RequestError};
use am_dp::{Dp, Nid, Nodes};
use proptest::test_runner::{Config, TestRunner};
use proptest::{collection, prelude::any};

use crate::common::{connect, open, poll_all, take, write};

/// What nodes with this list know of it (FNV-1a).
fn tag(names: &[&str]) -> u64 {
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Parts without a beginning, beginnings without an end, lengths that are wrong, answers to no question: the endpoint goes on, and
/// another peer's messages arrive.
#[test]
fn it_stalls_nobody() {
    const NAMES: [&str; 3] = ["node0", "node1", "wild"];
    let steps = collection::vec((0u8..6, any::<u16>(), 0usize..1400), 1..120);
    let mut runner = TestRunner::new(Config { cases: 40, max_shrink_iters: 0, ..Config::default() });
    let result = runner.run(&steps, |steps| {
        let open_one = |nid: u32| {
            let nodes = Nodes::list(NAMES, Nid(nid)).unwrap();
            Dp::new(Node::open(nodes.own_name(), "sim:51").unwrap(), nodes).unwrap()
        };
        let mut graph = vec![open_one(0), open_one(1)];
        let (to, from) = (open(&mut graph, 0, 9, 16_384), open(&mut graph, 1, 1, 4096));
        connect(&mut graph, (1, &from), 0, 9);
        let wild = Node::open("wild", "sim:51").unwrap();
        let mut endpoint = wild.endpoint_with_tag::<()>("dp.1", tag(&NAMES)).unwrap();
        endpoint.on_unhandled(|(), _| {});
        let connection = endpoint.connect_with_tag("node0", "dp.9", tag(&NAMES)).unwrap();
        while !endpoint.is_open(connection) {
            endpoint.poll(&mut ());
            poll_all(&mut graph);
        }
        for (handler, word, len) in steps {
            let payload = vec![handler; len];
            let words = [u64::from(word) * if word % 7 == 0 { u64::MAX / 65_535 } else { 1 }];
            loop {
                match endpoint.try_request(connection, HandlerId(handler), &words, &payload) {
                    Err(error) if error.is_temporary() => {}
                    Err(RequestError::Dead(_)) | Ok(()) => break,
                    Err(error) => panic!("{error}"),
                }
                endpoint.poll(&mut ());
                poll_all(&mut graph);
                drain(&mut graph, &to);
            }
        }
        for _ in 0..50 {
            endpoint.poll(&mut ());
            poll_all(&mut graph);
            drain(&mut graph, &to);
        }
        // What is incomplete goes with its sender.
        drop((endpoint, wild));
        write(&mut graph, (1, &from), b"from a friend");
        while take(&mut graph, (0, &to)) != b"from a friend" {}
        write(&mut graph, (1, &from), &[7; 16_384]);
        while take(&mut graph, (0, &to)) != [7; 16_384] {}
        Ok(())
    });
    result.unwrap();
}

fn drain(graph: &mut crate::common::Graph, to: &am_dp::Point) {
    while let Some(place) = graph[0].read(to).unwrap() {
        assert!(!place.is_empty());
        assert!(graph[0].fsync(to, 1));
    }
}
