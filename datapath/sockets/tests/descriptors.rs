//! What TCP does when the process has no descriptors left. It changes a limit of the process: a program of its own.

mod ends;

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use ends::{counter, place, receive, tcp, until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockets::Tcp;
use transport::Transport;

const ANY: &str = "tcp:127.0.0.1:0";

/// So many connections the one that is crowded may have; those of the others are counted too, and open already.
const ROOM: u64 = 5;

/// As many descriptors as are open now, and so many more. What the limit was.
fn leave_room_for(more: u64) -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let lowest = File::open("/dev/null").expect("it is there").as_raw_fd() as u64;
    let limit = Rlimit { current: Some(lowest + more), maximum: before.maximum };
    setrlimit(Resource::Nofile, limit).expect("lower is allowed");
    before
}

/// Everybody who comes is looked at, until nobody waits.
fn settle(end: &mut Tcp) {
    (0..2000).for_each(|_| assert_eq!(receive(end), []));
}

#[test]
fn those_who_say_nothing_take_no_descriptors_from_others() {
    let mut end = tcp(ANY);
    let there = place(&end);
    let silent: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&there).expect("it listens")).collect();
    let mut far = tcp(&format!("{ANY},peer={there}"));
    let mut introduced = tcp(ANY);
    let before = leave_room_for(ROOM);
    settle(&mut end);
    assert!(counter(&end, "tcp_accepted") >= 61, "{} of {}", counter(&end, "tcp_accepted"), silent.len());
    until("who speaks is heard", || {
        assert_eq!((receive(&mut end), receive(&mut far)), (vec![], vec![]));
        counter(&far, "tcp_peers") == 1 && counter(&end, "tcp_peers") == 1
    });
    // Whom it dials itself, too.
    end.introduce(&place(&introduced)).expect("a place");
    assert_eq!(counter(&end, "tcp_dial_failed"), 0);
    setrlimit(Resource::Nofile, before).expect("no more than it was");
    until("it is connected", || {
        assert_eq!((receive(&mut end), receive(&mut introduced)), (vec![], vec![]));
        counter(&introduced, "tcp_peers") == 1 && counter(&end, "tcp_peers") == 2
    });
}
