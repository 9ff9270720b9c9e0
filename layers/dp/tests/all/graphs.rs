//! Processes that become the vertices of a graph.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use am_api::Node;
use am_dp::{Dp, Dpid, Graph, JoinError, Nid, Nodes, Point, dpids};

use crate::common::LONG;

type Vertex = (Dp<Vec<u8>>, Vec<(Dpid, Point)>);

fn dp(transport: &str, count: usize, nid: usize) -> Dp<Vec<u8>> {
    let names: Vec<String> = (0..count).map(|nid| format!("vertex{nid}")).collect();
    let nodes = Nodes::list(names, Nid(nid as u32)).unwrap();
    Dp::new(Node::open(nodes.own_name(), transport).unwrap(), nodes).unwrap()
}

/// Run this in a thread for each vertex, on shared memory.
fn on(graph: &Graph, test: &str, work: impl Fn(u32, &mut Vertex) + Sync) {
    let transport = format!("shm:dp-graphs-{test}-{}", std::process::id());
    let settled = AtomicUsize::new(0);
    thread::scope(|scope| {
        for nid in 0..graph.count() {
            let (transport, settled, work) = (&transport, &settled, &work);
            scope.spawn(move || {
                let mut dp = dp(transport, graph.count(), nid);
                let points = dp.join(graph, |_| vec![0; 4096], LONG).unwrap();
                let mut vertex = (dp, points);
                work(nid as u32, &mut vertex);
                meet(&mut vertex.0, settled, graph.count());
            });
        }
    });
}

/// Wait until everything that any vertex wrote has been accepted. Until then each of them polls: a writer waits for acknowledgements of
/// a reader that lives.
fn meet(dp: &mut Dp<Vec<u8>>, settled: &AtomicUsize, count: usize) {
    let (start, mut is_counted) = (Instant::now(), false);
    while settled.load(Ordering::SeqCst) < count {
        assert!(start.elapsed() < LONG, "all own messages accepted: {is_counted}");
        dp.poll();
        if !is_counted && dp.is_all_accepted() {
            is_counted = true;
            settled.fetch_add(1, Ordering::SeqCst);
        }
        thread::yield_now();
    }
}

fn point(points: &[(Dpid, Point)], dpid: Dpid) -> &Point {
    &points.iter().find(|(of, _)| *of == dpid).unwrap().1
}

fn take((dp, points): &mut Vertex, dpid: Dpid) -> Vec<u8> {
    let point = point(points, dpid);
    let mut place = None;
    assert!(dp.wait_until(LONG, |dp| {
        place = dp.read(point).unwrap();
        place.is_some()
    }));
    let bytes = dp.bytes(point, &place.unwrap()).unwrap().to_vec();
    assert!(dp.fsync(point, 1));
    bytes
}

#[test]
fn a_token_goes_around_a_ring() {
    on(&Graph::ring(4).unwrap(), "ring", |nid, vertex| {
        let write = |vertex: &mut Vertex, sum: u8| {
            let (dp, points) = vertex;
            dp.write(point(points, dpids::NEXT), &[sum]).unwrap();
        };
        if nid == 0 {
            write(vertex, 1);
            assert_eq!(take(vertex, dpids::INBOX), [4]);
        } else {
            let sum = take(vertex, dpids::INBOX)[0];
            write(vertex, sum + 1);
        }
    });
}

#[test]
fn neighbours_in_a_mesh_face_each_other() {
    let graph = Graph::mesh(2, 3).unwrap();
    on(&graph, "mesh", |nid, vertex| {
        let dpids: Vec<Dpid> = vertex.1.iter().map(|(dpid, _)| *dpid).collect();
        for dpid in &dpids {
            let (dp, points) = &mut *vertex;
            assert_eq!(dp.dpid(point(points, *dpid)), Some(*dpid));
            dp.write(point(points, *dpid), &[nid as u8]).unwrap();
        }
        for dpid in &dpids {
            let neighbour = match *dpid {
                dpids::NORTH => nid - 3,
                dpids::EAST => nid + 1,
                dpids::SOUTH => nid + 3,
                _ => nid - 1,
            };
            assert_eq!(take(vertex, *dpid), [neighbour as u8]);
        }
    });
}

#[test]
fn a_process_that_is_no_vertex_is_told() {
    let mut alone = dp("sim:61", 2, 1);
    let join = |dp: &mut Dp<Vec<u8>>, text: &str| {
        let graph: Graph = text.parse().unwrap();
        dp.join(&graph, |_| vec![0; 4096], std::time::Duration::from_millis(50)).unwrap_err()
    };
    assert!(matches!(join(&mut alone, "ring:3"), JoinError::Size { vertices: 3, nodes: 2 }));
    let nodes = Nodes::found(Nid(5), 1, "sim:62");
    let mut found = Dp::new(Node::open(nodes.own_name(), "sim:62").unwrap(), nodes).unwrap();
    assert!(matches!(join(&mut found, "ring:3"), JoinError::NoVertex { vertices: 3, nid: Nid(5) }));
    // The other end never comes: nothing stays open.
    assert!(matches!(join(&mut alone, "ring:2"), JoinError::Connect { from: Dpid(1), .. }));
    assert_eq!(alone.open_count(), 0);
}
