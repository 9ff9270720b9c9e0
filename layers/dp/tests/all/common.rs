//! Nodes on one simulated network, polled in turn.

use std::os::fd::AsFd;
use std::task::Poll;
use std::time::{Duration, Instant};

use am_api::Node;
use am_dp::{ConnectError, Dp, Dpid, Nid, Nodes, Place, Point, WriteError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub(crate) type Graph = Vec<Dp<Vec<u8>>>;

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// So many nodes on this transport, each under the name of a list.
pub(crate) fn graph(transport: &str, count: usize) -> Graph {
    let names: Vec<String> = (0..count).map(|nid| format!("node{nid}")).collect();
    let open = |nid: usize| {
        let nodes = Nodes::list(names.clone(), Nid(nid as u32)).unwrap();
        Dp::new(Node::open(nodes.own_name(), transport).unwrap(), nodes).unwrap()
    };
    (0..count).map(open).collect()
}

pub(crate) fn poll_all(graph: &mut Graph) {
    graph.iter_mut().for_each(|dp| _ = dp.poll());
}

/// Poll all until something is there.
pub(crate) fn until<T>(graph: &mut Graph, mut wanted: impl FnMut(&mut Graph) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = wanted(graph) {
            return found;
        }
        assert!(start.elapsed() < LONG, "it takes too long");
        poll_all(graph);
    }
}

/// Whether its descriptor says that something can be read.
pub(crate) fn is_readable(point: &Point) -> bool {
    let mut fds = [PollFd::new(point.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
}

/// Connect; for as long as a second.
pub(crate) fn try_connect(graph: &mut Graph, from: (usize, &Point), nid: u32, dpid: u32) -> Result<(), ConnectError> {
    let (at, point) = from;
    let mut attempt = graph[at].begin_connect(point, Nid(nid), Dpid(dpid));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        if let Poll::Ready(result) = graph[at].connect_step(&mut attempt) {
            return result;
        }
        poll_all(graph);
    }
    Err(graph[at].give_up(attempt))
}

pub(crate) fn connect(graph: &mut Graph, from: (usize, &Point), nid: u32, dpid: u32) {
    try_connect(graph, from, nid, dpid).unwrap();
}

/// Write, and poll while there is no room.
pub(crate) fn write(graph: &mut Graph, (at, point): (usize, &Point), message: &[u8]) {
    until(graph, |graph| match graph[at].write(point, message) {
        Ok(()) => Some(()),
        Err(WriteError::Full) => None,
        Err(error) => panic!("{error}"),
    });
}

/// Wait for the next message.
pub(crate) fn read(graph: &mut Graph, (at, point): (usize, &Point)) -> Place {
    until(graph, |graph| graph[at].read(point).unwrap())
}

/// Wait for the next message, and give it back.
pub(crate) fn take(graph: &mut Graph, (at, point): (usize, &Point)) -> Vec<u8> {
    let place = read(graph, (at, point));
    let bytes = graph[at].bytes(point, &place).unwrap().to_vec();
    assert!(graph[at].fsync(point, 1));
    bytes
}

pub(crate) fn open(graph: &mut Graph, at: usize, dpid: u32, pool: usize) -> Point {
    graph[at].open(Dpid(dpid), vec![0; pool]).unwrap()
}
