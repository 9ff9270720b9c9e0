//! A TCP peer that takes nothing does not hold up others.

use std::time::{Duration, Instant};

use crate::ends::{connect, counter, numbered, place, receive, tcp, until};
use am_sockets::Tcp;
use am_transport::{Transport, TransportExt};
use am_wire::Address;

const LEN: usize = 20_000;

/// Near, and two peers of it with little room in their sockets.
fn three() -> [Tcp; 3] {
    let mut ends = ["tcp:127.0.0.1:0,frames=1024,buffer=5000"; 3].map(tcp);
    for peer in 1..3 {
        let there = place(&ends[peer]);
        ends[0].add_peer(&there).unwrap();
    }
    until("both are known", || {
        connect(&mut ends);
        counter(&ends[0], "tcp_peers") == 2
    });
    ends
}

/// Whether it was taken, within a turn.
fn send(near: &mut Tcp, to: Address, number: u32) -> bool {
    let frame = numbered(near, to, number, LEN);
    let is_taken = near.send(to, &frame);
    near.flush();
    is_taken
}

/// Receive until `many` frames have arrived. Returns their numbers. Frames leave in pieces.
fn arrivals(near: &mut Tcp, far: &mut Tcp, many: usize) -> Vec<u32> {
    let mut numbers = vec![];
    while numbers.len() < many {
        let before = numbers.len();
        until("another frame arrives", || {
            near.flush();
            numbers.extend(receive(far));
            numbers.len() > before
        });
    }
    numbers
}

#[test]
fn a_stalled_peer_loses_frames_after_a_short_wait() {
    let [mut near, mut stalled, mut busy] = three();
    let to = [stalled.caps().address, busy.caps().address];
    let mut start = Instant::now();
    let is_refused = |number: &u32| {
        // Before it is: from then on it is waited for.
        start = Instant::now();
        !send(&mut near, to[0], *number)
    };
    let queued = (0..).find(is_refused).expect("its queue is full at last");
    until("it is not waited for", || send(&mut near, to[0], queued));
    assert!(start.elapsed() >= Duration::from_millis(15), "a short pause is waited for");
    assert_eq!(counter(&near, "tcp_lost_stalled"), 1);
    // All that the other gets arrives, and what is for everybody does.
    for number in 0..50 {
        // Its kernel may take a little still, and then it is waited for once more.
        until("it is not waited for", || send(&mut near, to[0], queued));
        assert!(send(&mut near, to[1], number));
        until("what is for everybody goes", || send(&mut near, Address::BROADCAST, 1000 + number));
        assert_eq!(arrivals(&mut near, &mut busy, 2), [number, 1000 + number]);
    }
    let lost = counter(&near, "tcp_lost_stalled");
    assert!((51..=101).contains(&lost), "{lost} of 101 that were for it");
    // It gets what had waited for it, and then again what comes.
    let waited = queued as usize + 101 - lost as usize;
    let came = arrivals(&mut near, &mut stalled, waited);
    assert!(came.iter().copied().take(queued as usize).eq(0..queued), "{came:?}");
    assert!(send(&mut near, to[0], 7));
    assert_eq!(arrivals(&mut near, &mut stalled, 1), [7]);
    assert_eq!(counter(&near, "tcp_lost_stalled"), lost);
}

#[test]
fn where_nobody_is_connected_it_says_so() {
    let mut near = tcp("tcp:127.0.0.1:0");
    assert_eq!(near.link_error(), None, "a node that knows no peer waits for others");
    let far = tcp("tcp:127.0.0.1:0");
    let there = place(&far);
    near.add_peer(&there).unwrap();
    assert!(near.link_error().is_some_and(|why| why.contains("no peer is connected")));
    let mut ends = [near, far];
    connect(&mut ends);
    let [mut near, far] = ends;
    assert_eq!(near.link_error(), None);
    drop(far);
    until("it is noticed", || {
        receive(&mut near);
        near.link_error().is_some()
    });
    near.remove_peer(&there).unwrap();
    assert_eq!(near.link_error(), None);
}
