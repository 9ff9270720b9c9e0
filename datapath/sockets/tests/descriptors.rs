//! What TCP does when the process has no descriptors left. It changes a limit of the process: a program of its own.

mod ends;

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use am_sockets::Tcp;
use am_sockets::tcp::deframer::prefix;
use am_transport::{Transport, TransportExt};
use am_wire::Address;
use ends::{counter, numbered, place, receive, receive_so_many, tcp, tcp_pair, until};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

const ANY: &str = "tcp:127.0.0.1:0";

/// So many connections the one that is crowded may have; those of the others are counted too, and open already.
const ROOM: u64 = 5;

/// What the limit was, and is again when this is dropped: also where a test fails, for the others.
struct Lowered(Rlimit);

impl Drop for Lowered {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.0).expect("no more than it was");
    }
}

/// Lower the limit of open files to the number of open descriptors plus `more`.
fn leave_room_for(more: u64) -> Lowered {
    let before = getrlimit(Resource::Nofile);
    let lowest = File::open("/dev/null").expect("it is there").as_raw_fd() as u64;
    let limit = Rlimit { current: Some(lowest + more), maximum: before.maximum };
    setrlimit(Resource::Nofile, limit).expect("lower is allowed");
    Lowered(before)
}

/// Everybody who comes is looked at, until nobody waits.
fn settle(end: &mut Tcp) {
    (0..2000).for_each(|_| assert!(receive(end).is_empty()));
}

/// The limit is the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn connections_with_only_a_hello_are_evicted() {
    give_way_after(&[]);
}

#[test]
fn connections_that_never_finish_a_frame_are_evicted() {
    give_way_after(&[&prefix(1400)[..], &[0x88; 500]].concat());
}

/// Strangers say this after their hello, and nothing else.
fn give_way_after(words: &[u8]) {
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
            stranger.write_all(&[&hello([2, 0, 0, 9, 0, number]), words].concat()).expect("a hello");
            stranger
        })
        .collect();
    let mut late = tcp(&format!("{ANY},peer={there}"));
    let lowered = leave_room_for(ROOM);
    let hear = |end: &mut Tcp, far: &mut Tcp, late: &mut Tcp| {
        // The first is no stranger: it speaks.
        let frame = far.caps().pool.copy(&[0x88; 60]);
        frame.into_iter().for_each(|frame| _ = far.send(Address::BROADCAST, &frame));
        far.flush();
        assert_eq!((receive(end), receive(far), receive(late)), (vec![], vec![], vec![]));
    };
    until("the last gets in", || {
        hear(&mut end, &mut far, &mut late);
        counter(&late, "tcp_peers") == 1
    });
    drop(lowered);
    let (gave_way, all) = (counter(&end, "tcp_closed_for_others"), strangers.len() as u64);
    assert!(gave_way > all - 2 * ROOM, "{gave_way} of {all}");
    assert_eq!((counter(&far, "tcp_peers"), counter(&far, "tcp_closed_ended")), (1, 0), "it stays");
}

/// As a stranger may write it.
fn hello(address: [u8; 6]) -> Vec<u8> {
    [&b"\xffam-tcp\x01"[..], &address, &[0, 9], &1500u32.to_be_bytes()].concat()
}

#[test]
fn silent_connections_take_no_descriptors_from_others() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut end = tcp(ANY);
    let there = place(&end);
    let silent: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&there).expect("it listens")).collect();
    let mut far = tcp(&format!("{ANY},peer={there}"));
    let mut introduced = tcp(ANY);
    let lowered = leave_room_for(ROOM);
    settle(&mut end);
    assert!(counter(&end, "tcp_accepted") >= 61, "{} of {}", counter(&end, "tcp_accepted"), silent.len());
    until("who speaks is heard", || {
        assert_eq!((receive(&mut end), receive(&mut far)), (vec![], vec![]));
        counter(&far, "tcp_peers") == 1 && counter(&end, "tcp_peers") == 1
    });
    // Whom it dials itself, too.
    end.add_peer(&place(&introduced)).expect("a place");
    assert_eq!(counter(&end, "tcp_dial_failed"), 0);
    drop(lowered);
    until("it is connected", || {
        assert_eq!((receive(&mut end), receive(&mut introduced)), (vec![], vec![]));
        counter(&introduced, "tcp_peers") == 1 && counter(&end, "tcp_peers") == 2
    });
}

/// For so long each end sleeps, and is turned when it is woken. How often the first was.
fn sleep(ends: &mut [&mut Tcp], time: Duration) -> u32 {
    let (start, mut woken) = (Instant::now(), 0);
    while let Some(left) = time.checked_sub(start.elapsed()) {
        let wakes: Vec<_> = ends.iter().map(|end| end.caps().wake.clone().expect("it can be waited for")).collect();
        let mut polled: Vec<_> = wakes.iter().map(|wake| PollFd::new(&wake[0], PollFlags::IN)).collect();
        poll(&mut polled, Some(&left.try_into().expect("not that long"))).expect("a wait");
        let is_woken: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        woken += u32::from(is_woken[0]);
        let turned = ends.iter_mut().zip(is_woken).filter(|(_, is_woken)| *is_woken);
        // Several times: with few connections, only some of the polls check for a new one.
        turned.for_each(|(end, _)| (0..64).for_each(|_| assert!(receive(*end).is_empty())));
    }
    woken
}

/// Asleep but for what wakes them, both are connected soon.
fn is_in_at_once(end: &mut Tcp, far: &mut Tcp) -> bool {
    (0..100).any(|_| {
        sleep(&mut [end, far], Duration::from_millis(10));
        counter(far, "tcp_peers") == 1
    })
}

#[test]
fn a_node_that_waits_without_descriptors_sleeps_and_says_so() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("it has not run for so long");
    let mut end = tcp(ANY);
    let there = place(&end);
    let mut far = tcp(&format!("{ANY},peer={there}"));
    let lowered = leave_room_for(0);
    let used = cpu();
    let woken = sleep(&mut [&mut end, &mut far], Duration::from_secs(1));
    let (used, failed) = (cpu() - used, counter(&end, "tcp_accept_failed"));
    assert!((1..=12).contains(&failed), "{failed} tries in a second");
    assert!(woken <= 40 && used < Duration::from_millis(100), "woken {woken} times in a second, {used:?} of it awake");
    let said = end.link_error().unwrap_or_default();
    assert!(said.contains("`ulimit -n`"), "{said}");
    drop(lowered);
    assert!(is_in_at_once(&mut end, &mut far) && end.link_error().is_none());
    assert!(is_in_at_once(&mut end, &mut tcp(&format!("{ANY},peer={there}"))), "the next, too");
}

#[test]
fn connections_go_on_without_descriptors() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ends = tcp_pair(ANY, 1);
    let waiting = TcpStream::connect(place(&ends[1])).expect("it listens");
    let lowered = leave_room_for(0);
    let to = ends[1].caps().address;
    let mut number = 0;
    until("it has tried some times", || {
        let frame = numbered(&ends[0], to, number, 100);
        assert!(ends[0].send(to, &frame), "there is room");
        ends[0].flush();
        assert_eq!(receive_so_many(&mut ends[1], 1), [number]);
        number += 1;
        counter(&ends[1], "tcp_accept_failed") > 2
    });
    let said = ends[1].link_error();
    drop(lowered);
    assert_eq!(said, None, "of several transports, one that is broken is not used");
    drop(waiting);
}
