//! The resident memory of nodes. It is apart from other tests, because it is that of the whole process.

use std::fs;
use std::process::id;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, Node, NotOpen};
use am_testing::common::LONG;
use am_testing::common::daemon::Serving;

/// Resident memory of one node, and a part of what it shares with others.
const MOST: usize = 8 << 20;

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// What a node that is open and has no peer adds.
fn fresh(on: &str) -> usize {
    let before = resident();
    let node = Node::open("fresh", on).unwrap_or_else(|error| panic!("{on}: {error}"));
    let mut endpoint = node.endpoint::<()>("main").unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(20) {
        endpoint.poll(&mut ());
    }
    resident().saturating_sub(before)
}

#[test]
fn a_fresh_node_is_small() {
    let _alone = ALONE.lock();
    let daemon = Serving::start();
    for on in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0", &format!("shm:fresh-{}", id()), &daemon.transport()] {
        let grown = fresh(on);
        assert!(grown < MOST, "{on}: {grown} bytes");
    }
}

/// Each of twenty nodes has a lane to each other.
#[test]
fn so_are_twenty_that_are_connected_by_shared_memory() {
    const NODES: usize = 20;
    let _alone = ALONE.lock();
    let (before, on) = (resident(), format!("shm:twenty-{},members={NODES}", id()));
    let name = |number: usize| format!("n{number}");
    let mut endpoints: Vec<(Node, Endpoint<()>)> = (0..NODES)
        .map(|number| {
            let node = Node::builder(&name(number)).patience(LONG).open(&on).unwrap();
            let endpoint = node.endpoint("main").unwrap();
            (node, endpoint)
        })
        .collect();
    let connect = |(from, (_, endpoint)): (usize, &mut (Node, Endpoint<()>))| -> Vec<Connection> {
        let others = (0..NODES).filter(|to| *to != from);
        others.map(|to| endpoint.connect(&name(to), "main").unwrap()).collect()
    };
    let connections: Vec<Vec<Connection>> = endpoints.iter_mut().enumerate().map(connect).collect();
    let begin = Instant::now();
    loop {
        endpoints.iter_mut().for_each(|(_, endpoint)| _ = endpoint.poll(&mut ()));
        let states = endpoints.iter().zip(&connections).flat_map(|((_, from), to)| to.iter().map(|to| from.ready(*to)));
        let states: Vec<Result<(), NotOpen>> = states.collect();
        if states.iter().all(Result::is_ok) {
            break;
        }
        assert!(begin.elapsed() < LONG, "{states:?}");
    }
    let grown = resident().saturating_sub(before) / NODES;
    assert!(grown < MOST, "{grown} bytes each");
}
