//! Two hundred members behind two daemons on one wire: each sees all others, and those that leave are missed by all.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Endpoint, Node};
use am_daemon::{Daemon, DaemonOptions};
use am_netns::{Host, VethOptions, veth};

const HOSTS: usize = 2;
const THREADS: usize = 4;
/// Nodes of a thread.
const NODES: usize = 25;
/// Nodes of each thread that leave after a while.
const LEAVING: usize = 2;
const MINUTE: Duration = Duration::from_secs(60);

type Watcher = (Node, Endpoint<()>);

/// What the threads and the test share.
struct Shared {
    is_over: AtomicBool,
    /// Some nodes of each thread leave.
    some_leave: AtomicBool,
    /// For each thread, how many of its nodes see exactly the others.
    right: Vec<AtomicUsize>,
}

impl Shared {
    /// Wait until every node sees exactly the others, for a minute at most. Each thread has `nodes` nodes. Returns the number
    /// of nodes with the right view, and the time it took.
    fn until_right(&self, nodes: usize) -> (usize, Duration) {
        let start = Instant::now();
        let right = || self.right.iter().map(|right| right.load(Relaxed)).sum::<usize>();
        while right() != HOSTS * THREADS * nodes && start.elapsed() < MINUTE {
            thread::sleep(Duration::from_millis(50));
        }
        (right(), start.elapsed())
    }
}

fn name(thread: usize, node: usize) -> String {
    format!("member-{thread}-{node}")
}

fn open(name: &str, on: &str) -> Watcher {
    let node =
        Node::builder(name).receive_frames(64).send_frames(64).open(on).unwrap_or_else(|error| panic!("{error}"));
    let mut endpoint = node.endpoint("watch").expect("the first");
    endpoint.on_members(|_, _| ());
    (node, endpoint)
}

/// Poll the nodes of this thread.
fn run(thread: usize, on: &str, shared: &Shared) {
    let mut nodes: Vec<Watcher> = (0..NODES).map(|node| open(&name(thread, node), on)).collect();
    let mut look_at = Instant::now();
    while !shared.is_over.load(Relaxed) {
        let first = if shared.some_leave.load(Relaxed) { LEAVING } else { 0 };
        nodes.drain(..nodes.len() - (NODES - first));
        nodes.iter_mut().for_each(|(_, endpoint)| _ = endpoint.poll(&mut ()));
        if Instant::now() >= look_at {
            let all = (0..HOSTS * THREADS).flat_map(|thread| (first..NODES).map(move |node| name(thread, node)));
            let all: BTreeSet<String> = all.collect();
            let right = nodes.iter().filter(|(node, _)| {
                let mut seen: BTreeSet<String> =
                    node.members().iter().map(|member| member.peer.name.to_string()).collect();
                seen.insert(node.name().to_owned());
                seen == all
            });
            shared.right[thread].store(right.count(), Relaxed);
            look_at = Instant::now() + Duration::from_millis(100);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn serve(place: &Path, stop: &AtomicBool) {
    let options = DaemonOptions { wire: Some("xdp:am0".to_owned()), ..DaemonOptions::new(place) };
    Daemon::open(options).unwrap_or_else(|error| panic!("{error}")).run(stop);
}

#[test]
fn two_hundred_members_behind_two_daemons_see_each_other() {
    let hosts = ["crowd-a", "crowd-b"].map(|name| Host::new(name).unwrap());
    let _ends = veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let sockets = [0, 1].map(|at| place.path().join(format!("amd-{at}.sock")));
    let right = (0..HOSTS * THREADS).map(|_| AtomicUsize::new(0)).collect();
    let shared = Shared { is_over: AtomicBool::new(false), some_leave: AtomicBool::new(false), right };
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for (host, socket) in hosts.iter().zip(&sockets) {
            scope.spawn(|| host.enter(|| serve(socket, &ended)).unwrap());
        }
        let start = Instant::now();
        let is_served = |socket: &Path| Node::open("early", &format!("amd:{}", socket.display())).is_ok();
        while start.elapsed() < MINUTE && !sockets.iter().all(|socket| is_served(socket)) {
            thread::sleep(Duration::from_millis(20));
        }
        let shared = &shared;
        let threads: Vec<_> = (0..HOSTS * THREADS)
            .map(|thread| {
                let on = format!("amd:{}", sockets[thread / THREADS].display());
                scope.spawn(move || run(thread, &on, shared))
            })
            .collect();
        let joined = shared.until_right(NODES);
        println!("all see all after {:?}", joined.1);
        shared.some_leave.store(true, Relaxed);
        thread::sleep(Duration::from_millis(300));
        let missed = shared.until_right(NODES - LEAVING);
        println!("all miss those that left after {:?}", missed.1);
        shared.is_over.store(true, Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        ended.store(true, Relaxed);
        assert_eq!(joined.0, HOSTS * THREADS * NODES, "right views, when all are there");
        assert_eq!(missed.0, HOSTS * THREADS * (NODES - LEAVING), "right views, when some have left");
    });
}
