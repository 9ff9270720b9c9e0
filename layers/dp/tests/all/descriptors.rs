//! Endpoints as file descriptors.

use std::os::fd::OwnedFd;

use am_dp::Dpid;
use nix::errno::Errno;

use crate::common::{connect, graph, is_readable, open, poll_all, read, take, until, write};

#[test]
fn it_is_readable_while_there_is_a_message() {
    let mut graph = graph("sim:41", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 4096));
    connect(&mut graph, (0, &from), 1, 2);
    assert!(!is_readable(&to));
    for _ in 0..3 {
        write(&mut graph, (0, &from), b"one");
        write(&mut graph, (0, &from), b"two");
        until(&mut graph, |_| is_readable(&to).then_some(()));
        assert_eq!(take(&mut graph, (1, &to)), b"one");
        poll_all(&mut graph);
        assert!(is_readable(&to), "one is left");
        read(&mut graph, (1, &to));
        assert!(!is_readable(&to) && graph[1].read(&to) == Ok(None));
        assert!(graph[1].fsync(&to, 1));
    }
}

/// A program that reads all the time never waits for the descriptor, and it costs nothing then. But what it leaves is said.
#[test]
fn what_is_left_unread_makes_it_readable() {
    let mut graph = graph("sim:42", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 4096));
    connect(&mut graph, (0, &from), 1, 2);
    for text in [b"one", b"two"] {
        write(&mut graph, (0, &from), text);
    }
    // Both arrive in the turn of this call, and no other.
    (0..10).for_each(|_| _ = graph[0].poll());
    until(&mut graph, |graph| graph[1].read(&to).unwrap());
    graph[1].poll();
    assert!(is_readable(&to));
}

#[test]
fn closing_it_closes_the_endpoint_when_all_has_arrived() {
    let mut graph = graph("sim:43,loss=0.2", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 65536));
    connect(&mut graph, (0, &from), 1, 2);
    (0..20u8).for_each(|number| write(&mut graph, (0, &from), &[number; 1000]));
    drop(OwnedFd::from(from));
    assert!(matches!(graph[0].open(Dpid(1), vec![0; 4096]), Err(am_dp::OpenError::InUse(_))));
    (0..20u8).for_each(|number| assert_eq!(take(&mut graph, (1, &to)), [number; 1000]));
    until(&mut graph, |graph| {
        graph[0].prepare_wait().unwrap();
        graph[0].open(Dpid(1), vec![0; 4096]).ok()
    });
}

#[test]
fn what_is_written_past_the_library_is_an_error() {
    let mut graph = graph("sim:44", 1);
    let point = open(&mut graph, 0, 1, 4096);
    assert_eq!(nix::unistd::write(&point, b"lost"), Err(Errno::EPIPE));
    assert!(!is_readable(&point));
    graph[0].prepare_wait().unwrap();
    assert!(graph[0].is_open(&point));
}
