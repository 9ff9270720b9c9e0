//! What TCP does when the process has no descriptors left. It changes a limit of the process: a program of its own.

mod ends;

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

use ends::{counter, place, receive, tcp, until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockets::Tcp;
use transport::Transport;
use wire::Address;

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

/// The limit is the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn those_who_only_say_who_they_are_give_way() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut end = tcp(ANY);
    let there = place(&end);
    let mut far = tcp(&format!("{ANY},peer={there}"));
    until("the first is connected", || {
        assert_eq!((receive(&mut end), receive(&mut far)), (vec![], vec![]));
        counter(&far, "tcp_peers") == 1
    });
    let strangers: Vec<TcpStream> = (0..20u8)
        .map(|number| {
            let mut stranger = TcpStream::connect(&there).expect("it listens");
            stranger.write_all(&hello([2, 0, 0, 9, 0, number])).expect("a hello");
            stranger
        })
        .collect();
    let mut late = tcp(&format!("{ANY},peer={there}"));
    let before = leave_room_for(ROOM);
    let hear = |end: &mut Tcp, far: &mut Tcp, late: &mut Tcp| {
        // The first is no stranger: it speaks.
        let frame = far.caps().pool.copy(&[0x88; 60]);
        frame.into_iter().for_each(|frame| drop(far.send(Address::BROADCAST, frame)));
        far.flush();
        assert_eq!((receive(end), receive(far), receive(late)), (vec![], vec![], vec![]));
    };
    until("the last gets in", || {
        hear(&mut end, &mut far, &mut late);
        counter(&late, "tcp_peers") == 1
    });
    setrlimit(Resource::Nofile, before).expect("no more than it was");
    let (gave_way, all) = (counter(&end, "tcp_closed_for_others"), strangers.len() as u64);
    assert!(gave_way > all - 2 * ROOM, "{gave_way} of {all}");
    assert_eq!((counter(&far, "tcp_peers"), counter(&far, "tcp_closed_ended")), (1, 0), "it stays");
}

/// As a stranger may write it.
fn hello(address: [u8; 6]) -> Vec<u8> {
    [&b"\xffam-tcp\x01"[..], &address, &[0, 9], &1500u32.to_be_bytes()].concat()
}

#[test]
fn those_who_say_nothing_take_no_descriptors_from_others() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
