//! Edges: redirected while messages flow, refused, ended.

use std::collections::BTreeMap;
use std::time::Duration;

use am_api::Node;
use am_dp::{ConnectError, Dp, Dpid, Nid, Nodes, ReadError, WriteError};

use crate::common::{connect, graph, open, poll_all, take, try_connect, until, write};

/// An edge is moved from end to end while messages flow: each message arrives once, at the end that it was written to.
#[test]
fn a_redirected_edge_loses_nothing() {
    let mut graph = graph("sim:31,loss=0.03", 4);
    let from = open(&mut graph, 0, 1, 4096);
    let ends: Vec<_> = (1..4).map(|at| open(&mut graph, at, 5, 4096)).collect();
    let mut written: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let mut taken: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let mut take_all = |graph: &mut crate::common::Graph| {
        for (at, end) in ends.iter().enumerate() {
            while let Some(place) = graph[at + 1].read(end).unwrap() {
                let number = u32::from_le_bytes(graph[at + 1].bytes(end, &place).unwrap()[..4].try_into().unwrap());
                taken.entry(at + 1).or_default().push(number);
                assert!(graph[at + 1].fsync(end, 1));
            }
        }
        taken.values().map(Vec::len).sum::<usize>()
    };
    let mut number = 0u32;
    for turn in 0..30 {
        let to = 1 + turn % 3;
        connect(&mut graph, (0, &from), to as u32, 5);
        for _ in 0..40 {
            // Some fill several frames.
            let len = if number.is_multiple_of(7) { 3900 } else { 4 };
            let mut message = vec![0; len];
            message[..4].copy_from_slice(&number.to_le_bytes());
            until(&mut graph, |graph| {
                take_all(graph);
                graph[0].write(&from, &message).ok()
            });
            written.entry(to).or_default().push(number);
            number += 1;
        }
    }
    until(&mut graph, |graph| (take_all(graph) == number as usize).then_some(()));
    assert!(taken == written, "all arrive once, in order, at their end");
}

#[test]
fn an_edge_to_nobody_says_who_is_missing() {
    let mut graph = graph("sim:32", 2);
    let from = open(&mut graph, 0, 1, 4096);
    let missing = ConnectError::NoPoint { nid: Nid(1), dpid: Dpid(7) };
    assert_eq!(try_connect(&mut graph, (0, &from), 1, 7), Err(missing));
    assert!(matches!(try_connect(&mut graph, (0, &from), 2, 7), Err(ConnectError::NoNode { nid: Nid(2), .. })));
    let own = ConnectError::NoPoint { nid: Nid(0), dpid: Dpid(7) };
    assert_eq!(try_connect(&mut graph, (0, &from), 0, 7), Err(own));
    // It may be opened later.
    let mut attempt = graph[0].begin_connect(&from, Nid(1), Dpid(7));
    for _ in 0..100 {
        assert!(graph[0].connect_step(&mut attempt).is_pending());
        poll_all(&mut graph);
    }
    let to = open(&mut graph, 1, 7, 4096);
    until(&mut graph, |graph| graph[0].connect_step(&mut attempt).is_ready().then_some(()));
    write(&mut graph, (0, &from), b"here");
    assert_eq!(take(&mut graph, (1, &to)), b"here");
}

#[test]
fn an_old_edge_stays_where_there_is_no_new_one() {
    let mut graph = graph("sim:33", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 4096));
    connect(&mut graph, (0, &from), 1, 2);
    assert!(try_connect(&mut graph, (0, &from), 1, 3).is_err());
    write(&mut graph, (0, &from), b"as before");
    assert_eq!(take(&mut graph, (1, &to)), b"as before");
}

#[test]
fn nodes_with_another_list_do_not_talk() {
    let open = |names: &[&str], nid| {
        let nodes = Nodes::list(names.iter().copied(), Nid(nid)).unwrap();
        Dp::new(Node::open(nodes.own_name(), "sim:34").unwrap(), nodes).unwrap()
    };
    let mut graph = vec![open(&["a", "b"], 0), open(&["a", "b", "c"], 1)];
    let from = crate::common::open(&mut graph, 0, 1, 4096);
    let _to = crate::common::open(&mut graph, 1, 2, 4096);
    assert_eq!(try_connect(&mut graph, (0, &from), 1, 2), Err(ConnectError::OtherList(Nid(1))));
}

/// A node that is found by discovery: before its process comes, and when it has gone.
#[test]
fn an_edge_to_a_node_that_has_gone_says_so() {
    // Here the death of a process is known at once.
    let name = format!("shm:dp-gone-{}", std::process::id());
    let open_as = |nid| {
        let nodes = Nodes::found(Nid(nid), 36, &name);
        Dp::new(Node::open(nodes.own_name(), &name).unwrap(), nodes).unwrap()
    };
    let mut graph = vec![open_as(1)];
    let from = open(&mut graph, 0, 1, 4096);
    let why = |error: ConnectError| error.to_string();
    let said = try_connect(&mut graph, (0, &from), 2, 5).map_err(why);
    assert_eq!(said.unwrap_err(), "no node has NID 2: no process of it was found yet");
    graph.push(open_as(2));
    let to = open(&mut graph, 1, 5, 4096);
    connect(&mut graph, (0, &from), 2, 5);
    drop((graph.pop(), to));
    until(&mut graph, |graph| {
        let said = try_connect(graph, (0, &from), 2, 5).map_err(why).err();
        said.filter(|said| said == "no node has NID 2: its process has gone, and no other has come")
    });
}

#[test]
fn a_process_alone_says_that_it_is() {
    let mut graph = graph("sim:37", 1);
    let from = open(&mut graph, 0, 1, 4096);
    assert_eq!(try_connect(&mut graph, (0, &from), 1, 5), Err(ConnectError::Alone(Nid(1))));
}

#[test]
fn processes_of_one_nid_are_found() {
    let open = |nid| {
        let nodes = Nodes::found(Nid(nid), u64::from(std::process::id()), "sim:35");
        Dp::new(Node::open(nodes.own_name(), "sim:35").unwrap(), nodes).unwrap()
    };
    let mut graph = vec![open(1), open(2), open(2), open(2)];
    let from = crate::common::open(&mut graph, 0, 1, 4096);
    let ends = [1, 2, 3].map(|at| crate::common::open(&mut graph, at, at as u32, 4096));
    assert!(matches!(graph[3].open(Dpid(1), vec![0; 4096]), Err(am_dp::OpenError::InUse(Dpid(1)))));
    for at in [2, 1, 3] {
        connect(&mut graph, (0, &from), 2, at as u32);
        write(&mut graph, (0, &from), &[at as u8]);
        assert_eq!(take(&mut graph, (at, &ends[at - 1])), [at as u8]);
    }
}

#[test]
fn the_death_of_the_other_end_is_reported_after_its_last_message() {
    let mut graph = graph("sim:36", 2);
    let (own, other) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 4096));
    connect(&mut graph, (0, &own), 1, 2);
    connect(&mut graph, (1, &other), 0, 1);
    write(&mut graph, (1, &other), b"last words");
    poll_all(&mut graph);
    // As a process that is killed: it says nothing.
    let dead = graph.pop().unwrap();
    graph[0].write(&own, b"are you there").unwrap();
    assert_eq!(take(&mut graph, (0, &own)), b"last words");
    let lost = until(&mut graph, |graph| graph[0].read(&own).err());
    assert_eq!(lost, ReadError::Lost { nid: Nid(1), dpid: Dpid(2) });
    assert!(matches!(graph[0].write(&own, b"hello"), Err(WriteError::Ended(_))));
    drop((dead, other));
}

/// The reader's process lives, and its program does something else.
#[test]
fn a_writer_waits_for_a_reader_that_does_not_poll_and_leaves_in_time() {
    let mut graph = graph(&format!("shm:dp-edges-busy-{}", std::process::id()), 2);
    let (first, second) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 0, 2, 4096));
    let to = open(&mut graph, 1, 5, 4096);
    connect(&mut graph, (0, &first), 1, 5);
    connect(&mut graph, (0, &second), 1, 5);
    write(&mut graph, (0, &first), b"one");
    write(&mut graph, (0, &second), b"two");
    // Longer than the silence that a dead reader is allowed.
    assert!(!graph[0].wait_until(Duration::from_secs(4), |dp| dp.is_accepted(&first)), "it is not given up");
    assert!(!graph[0].finish(second, Duration::from_millis(50)), "this writer does not wait any longer");
    assert_eq!(take(&mut graph, (1, &to)), b"one");
    until(&mut graph, |graph| graph[0].is_accepted(&first).then_some(()));
    write(&mut graph, (0, &first), b"three");
    until(&mut graph, |graph| {
        let place = graph[1].read(&to).ok()??;
        (graph[1].bytes(&to, &place) == Some(b"three")).then_some(())
    });
}
