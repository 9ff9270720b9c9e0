//! What TCP sockets do: connections that come and go, streams in pieces, and what strangers say.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::ends::{
    FLOW, connect, counter, is_quiet, number, numbered, options, place, receive, receive_so_many, tcp, tcp_pair, until,
};
use am_sockets::tcp::deframer::prefix;
use am_sockets::{Tcp, tcp};
use am_transport::{PeerAddressError, Transport, TransportExt};
use am_wire::{Address, Buffer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const ANY: &str = "tcp:127.0.0.1:0";

fn send(end: &mut Tcp, to: Address, number: u32, len: usize) {
    let frame = numbered(end, to, number, len);
    assert!(end.send(to, &frame), "room");
}

/// A hello as a stranger may write it.
fn hello(address: [u8; 6], port: u16, max_frame: u32) -> Vec<u8> {
    [&b"\xffam-tcp\x01"[..], &address, &port.to_be_bytes(), &max_frame.to_be_bytes()].concat()
}

#[test]
fn many_frames_are_one_call() {
    let mut ends = tcp_pair(ANY, 1);
    let to = ends[1].caps().address;
    let before = counter(&ends[0], "tcp_send_calls");
    (0..60).for_each(|number| send(&mut ends[0], to, number, 100 + number as usize));
    ends[0].flush();
    assert_eq!(counter(&ends[0], "tcp_send_calls"), before + 1);
    let before = counter(&ends[1], "tcp_receive_calls");
    assert!(receive_so_many(&mut ends[1], 60).into_iter().eq(0..60));
    assert!(counter(&ends[1], "tcp_receive_calls") <= before + 2);
    // An idle look is one read.
    let before = counter(&ends[1], "tcp_receive_calls");
    assert!((0..10).all(|_| receive(&mut ends[1]).is_empty()));
    assert_eq!(counter(&ends[1], "tcp_receive_calls"), before + 10);
}

/// Frames far longer than what the socket takes at once, the receiver now and then not looking.
#[test]
fn writes_and_reads_in_pieces_lose_nothing() {
    let mut ends = tcp_pair("tcp:127.0.0.1:0,buffer=3000,frames=600", 1);
    let to = ends[1].caps().address;
    let (mut next, mut arrived) = (0, vec![]);
    let mut turn = || {
        while next < 800 {
            let Some(frame) = ends[0].caps().pool.take() else { break };
            drop(frame);
            let len = [60, 65_000, 200, 40_000, 1514][next as usize % 5];
            let frame = numbered(&ends[0], to, next, len);
            if !ends[0].send(to, &frame) {
                break;
            }
            next += 1;
        }
        ends[0].flush();
        ends[1].receive(5, &mut |frame| arrived.push((number(&frame), frame.bytes().len())));
        arrived.len() == 800
    };
    // Thousands of turns: a busy machine takes the processor away for milliseconds at each pause.
    until("all arrive", || (0..64).any(|_| turn()));
    assert!(arrived.iter().map(|(number, _)| *number).eq(0..800));
    assert!(arrived.iter().all(|(number, len)| *len == [60, 65_000, 200, 40_000, 1514][*number as usize % 5]));
    assert!(counter(&ends[0], "tcp_full") > 0, "the queue was full at some time");
    let calls = counter(&ends[0], "tcp_send_calls");
    assert!(calls > 800, "{calls} calls: frames went in pieces");
}

#[test]
fn both_may_introduce_each_other_at_once() {
    for _ in 0..20 {
        let mut ends = tcp_pair(ANY, 2);
        let addresses = [0, 1].map(|end: usize| ends[end].caps().address);
        let mut arrived = [vec![], vec![]];
        for number in 0..50 {
            for end in 0..2 {
                let to = if number % 2 == 0 { addresses[1 - end] } else { Address::BROADCAST };
                send(&mut ends[end], to, number, 100);
                ends[end].flush();
                arrived[1 - end].extend(receive(&mut ends[1 - end]));
            }
        }
        until("all arrive", || {
            (0..2).for_each(|end| arrived[end].extend(receive(&mut ends[end])));
            arrived.iter().all(|numbers| numbers.len() >= 50)
        });
        assert!(arrived.iter().all(|numbers| numbers.iter().copied().eq(0..50)), "{arrived:?}");
        let counts = |name| [0, 1].map(|end: usize| counter(&ends[end], name));
        assert_eq!(counts("tcp_connections"), [1, 1], "by which frames take TCP's acknowledgements along");
        assert_eq!((counts("tcp_dialed"), counts("tcp_closed_redundant").iter().sum()), ([1, 1], 1u64));
    }
}

#[test]
fn a_connected_peer_is_not_dialed() {
    let mut ends = tcp_pair(ANY, 1);
    let there = place(&ends[0]);
    ends[1].add_peer(&there).unwrap();
    assert_eq!((counter(&ends[1], "tcp_dialed"), counter(&ends[1], "tcp_connections")), (0, 1));
}

#[test]
fn a_peer_that_restarts_is_connected_again() {
    let mut near = tcp(ANY);
    let first = tcp(ANY);
    let there = place(&first);
    near.add_peer(&there).unwrap();
    let mut ends = [near, first];
    connect(&mut ends);
    let [mut near, first] = ends;
    let old = first.caps().address;
    // These wait for it when it goes, and are counted.
    (0..200).for_each(|number| send(&mut near, old, number, 60_000));
    near.flush();
    drop(first);
    until("it is noticed", || {
        receive(&mut near);
        counter(&near, "tcp_peers") == 0
    });
    assert!(counter(&near, "tcp_lost_disconnected") > 0);
    assert!(counter(&near, "tcp_sent") + counter(&near, "tcp_lost_disconnected") == 200);
    send(&mut near, old, 1, 100);
    assert_eq!(counter(&near, "tcp_lost_nobody"), 1);
    until("a try fails", || {
        receive(&mut near);
        counter(&near, "tcp_dial_failed") > 0
    });
    let mut ends = [near, tcp(&format!("tcp:{there}"))];
    connect(&mut ends);
    let to = ends[1].caps().address;
    assert_ne!(to, old);
    send(&mut ends[0], to, 7, 100);
    assert_eq!((receive(&mut ends[0]), receive_so_many(&mut ends[1], 1)), (vec![], vec![7]));
}

#[test]
fn frames_sent_before_a_close_are_received() {
    let mut ends = tcp_pair(ANY, 1);
    let [to, back] = [1, 0].map(|end: usize| ends[end].caps().address);
    // It goes with frames unread, and what is said to it then finds nobody.
    send(&mut ends[1], back, 1000, 100);
    ends[1].flush();
    (0..250).for_each(|number| send(&mut ends[0], to, number, 100));
    let [near, mut far] = ends;
    drop(near);
    let mut arrived = vec![];
    until("all of it is heard", || {
        far.receive(10, &mut |frame| arrived.push(number(&frame)));
        if counter(&far, "tcp_peers") > 0 {
            send(&mut far, back, 2000, 100);
        }
        far.flush();
        arrived.len() == 250
    });
    assert!(arrived.into_iter().eq(0..250));
    until("and then it is closed", || {
        receive(&mut far);
        counter(&far, "tcp_connections") == 0
    });
    assert!(counter(&far, "tcp_lost_disconnected") > 0);
}

#[test]
fn removed_peers_are_not_dialed_again() {
    let mut ends = tcp_pair(ANY, 1);
    let there = place(&ends[1]);
    ends[0].remove_peer(&there).unwrap();
    ends[0].remove_peer(&there).unwrap();
    assert_eq!(counter(&ends[0], "tcp_connections"), 0);
    until("the other side notices", || {
        receive(&mut ends[1]);
        counter(&ends[1], "tcp_connections") == 0
    });
    assert!(is_quiet(&mut ends[0]));
    assert_eq!((counter(&ends[0], "tcp_dialed"), counter(&ends[0], "tcp_connections")), (1, 0));
}

#[test]
fn invalid_streams_are_closed_and_others_go_on() {
    let mut ends = tcp_pair(ANY, 1);
    let there = place(&ends[1]);
    let absurd = |len: u32| [hello([2, 0, 0, 0, 0, 9], 9, 1500), len.to_be_bytes().to_vec()].concat();
    let group = hello([3, 0, 0, 0, 0, 9], 9, 1500);
    let said =
        [b"GET / HTTP/1.1\r\n\r\n".to_vec(), absurd(0), absurd(65_001), absurd(u32::MAX), group, vec![0xff; 5000]];
    let mut strangers: Vec<TcpStream> = vec![];
    for bytes in &said {
        let mut stranger = TcpStream::connect(&there).unwrap();
        stranger.write_all(bytes).unwrap();
        strangers.push(stranger);
    }
    // A port scan, and one who asks and goes.
    for how in [Shutdown::Both, Shutdown::Write] {
        TcpStream::connect(&there).unwrap().shutdown(how).unwrap();
    }
    until("they are closed", || {
        assert!(receive(&mut ends[1]).is_empty());
        counter(&ends[1], "tcp_closed_garbage") == said.len() as u64 && counter(&ends[1], "tcp_connections") == 1
    });
    for mut stranger in strangers {
        stranger.set_read_timeout(Some(crate::ends::PATIENCE)).unwrap();
        // Our hello, and then the end, or a reset.
        let _ = stranger.read_to_end(&mut vec![]);
    }
    let to = ends[1].caps().address;
    send(&mut ends[0], to, 5, 100);
    ends[0].flush();
    assert_eq!(receive_so_many(&mut ends[1], 1), [5]);
}

#[test]
fn a_silent_connection_is_closed_in_time_even_by_a_sleeping_node() {
    let mut end = tcp(ANY);
    let _silent = TcpStream::connect(place(&end)).unwrap();
    let mut halfway = TcpStream::connect(place(&end)).unwrap();
    halfway.write_all(&hello([2, 0, 0, 0, 0, 9], 9, 1500)[..10]).unwrap();
    let wake = end.caps().wake.clone().unwrap();
    let start = Instant::now();
    while counter(&end, "tcp_closed_silent") < 2 {
        assert!(start.elapsed() < crate::ends::PATIENCE);
        poll(&mut [PollFd::new(wake[0].as_fd(), PollFlags::POLLIN)], PollTimeout::MAX).unwrap();
        assert!(receive(&mut end).is_empty());
    }
    assert!(start.elapsed() > Duration::from_secs(2), "they had time");
    assert_eq!(counter(&end, "tcp_connections"), 0);
}

/// Nobody answers at the other end of the handshake, or nobody is there: tried again and again, and nothing else stands still.
#[test]
fn places_where_nobody_is_do_not_matter() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = taken.local_addr().unwrap().to_string();
    let mut ends = tcp_pair(ANY, 1);
    ends[0].add_peer(&silent).unwrap();
    ends[0].add_peer("127.0.0.1:9").unwrap();
    let to = ends[1].caps().address;
    let mut next = 0;
    until("three tries", || {
        send(&mut ends[0], to, next, 100);
        ends[0].flush();
        assert_eq!(receive_so_many(&mut ends[1], 1), [next]);
        receive(&mut ends[0]);
        next += 1;
        counter(&ends[0], "tcp_dial_failed") >= 3
    });
}

#[test]
fn strangers_do_not_take_all_connections() {
    let mut end = tcp(ANY);
    let mut far = tcp(ANY);
    let there = place(&end);
    let mut strangers = vec![];
    for number in 0..300u16 {
        let mut stranger = TcpStream::connect(&there).unwrap();
        let [high, low] = number.to_be_bytes();
        // With a frame for somebody else: who says nothing would make room.
        let hello = hello([2, 0, 0, 9, high, low], 9, 1500);
        stranger.write_all(&[&hello[..], &prefix(60), &[2; 60]].concat()).unwrap();
        strangers.push(stranger);
        (0..40).for_each(|_| assert!(receive(&mut end).is_empty()));
    }
    until("all are looked at", || {
        assert!(receive(&mut end).is_empty());
        counter(&end, "tcp_accepted") + counter(&end, "tcp_refused_full") == 300
    });
    assert_eq!((counter(&end, "tcp_accepted"), counter(&end, "tcp_peers")), (256, 256));
    // Whom we introduce is reached, and heard among them all.
    end.add_peer(&place(&far)).unwrap();
    until("they connect", || {
        assert_eq!((receive(&mut end), receive(&mut far)), (vec![], vec![]));
        counter(&far, "tcp_peers") == 1 && counter(&end, "tcp_peers") == 257
    });
    let to = end.caps().address;
    send(&mut far, to, 3, 100);
    far.flush();
    assert_eq!(receive_so_many(&mut end, 1), [3]);
    // One of the strangers, too, and by his address only.
    let Address(bytes) = end.caps().address;
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&bytes);
    frame[12..14].copy_from_slice(&[0x88, 0xb6]);
    strangers[5].write_all(&[&prefix(60)[..], &frame].concat()).unwrap();
    until("its frame is turned away by steering", || {
        assert!(receive(&mut end).is_empty());
        counter(&end, "steer_drop_unknown_version") == 1
    });
}

/// More of them than there is room for, each for as long as it may.
#[test]
fn silent_connections_keep_no_peer_out() {
    let mut end = tcp(ANY);
    let there = place(&end);
    let connect = |end: &mut Tcp| {
        let stranger = TcpStream::connect(&there).unwrap();
        (0..40).for_each(|_| assert!(receive(end).is_empty()));
        stranger
    };
    let mut silent: Vec<TcpStream> = (0..300).map(|_| connect(&mut end)).collect();
    let mut far = tcp(&format!("{ANY},peer={there}"));
    until("who speaks is heard", || {
        assert_eq!((receive(&mut end), receive(&mut far)), (vec![], vec![]));
        counter(&far, "tcp_peers") == 1 && counter(&end, "tcp_peers") == 1
    });
    silent.extend((0..300).map(|_| connect(&mut end)));
    let to = end.caps().address;
    send(&mut far, to, 3, 100);
    far.flush();
    assert_eq!(receive_so_many(&mut end, 1), [3]);
    assert_eq!(counter(&end, "tcp_refused_full"), 0);
    assert!(counter(&end, "tcp_closed_for_others") + counter(&end, "tcp_closed_silent") >= 600 + 1 - 256);
    assert!(counter(&end, "tcp_connections") <= 256);
}

#[test]
fn a_frame_longer_than_the_other_side_takes_is_not_sent() {
    let mut ends = [tcp(ANY), tcp("tcp:127.0.0.1:0,frame=1500")];
    let there = place(&ends[1]);
    ends[0].add_peer(&there).unwrap();
    connect(&mut ends);
    let to = ends[1].caps().address;
    send(&mut ends[0], to, 1, 1501);
    send(&mut ends[0], to, 2, 1500);
    ends[0].flush();
    assert_eq!(receive_so_many(&mut ends[1], 1), [2]);
    assert_eq!(counter(&ends[0], "tcp_lost_too_long_for_peer"), 1);
}

#[test]
fn a_shared_peer_list_may_contain_the_node_itself() {
    let mut end = tcp("tcp:0.0.0.0:0");
    let port = place(&end).rsplit(':').next().unwrap().to_owned();
    end.add_peer(&format!("127.0.0.1:{port}")).unwrap();
    until("it finds itself", || {
        receive(&mut end);
        counter(&end, "tcp_closed_ended") >= 2
    });
    assert!(is_quiet(&mut end));
    assert_eq!((counter(&end, "tcp_dialed"), counter(&end, "tcp_peers")), (1, 0));
    for number in 1..=256 {
        end.add_peer(&format!("127.0.0.1:{number}")).unwrap();
    }
    assert_eq!(end.add_peer("127.0.0.1:257"), Err(PeerAddressError::TooMany { known: 256 }));
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let taken = tcp(ANY);
    let port = place(&taken).rsplit(':').next().unwrap().to_owned();
    let error = |name: &str| tcp::open(&options(name)).err().expect("this cannot be opened").to_string();
    let in_use = error(&taken.caps().name);
    assert!(in_use.contains(&format!("`ss -lnpt sport = :{port}`")), "{in_use}");
    assert!(error("tcp:192.0.2.1:0").contains("`ip -brief address`"));
    assert!(error("tcp:127.0.0.1:0,frame=2000000").contains("162 to 1048576"));
    assert!(error("tcp:127.0.0.1:0,frames=4000000000").contains("lower `frames=`"));
    assert!(error("tcp:[fe80::1]:0").contains("[fe80::1%eth0]:7000"));
    assert!(error("tcp:224.0.0.1:7000").contains("a multicast address"));
}

#[test]
fn a_sleeper_is_woken_by_what_arrives_and_by_room() {
    let mut ends = tcp_pair(ANY, 1);
    let to = ends[1].caps().address;
    let awake = |end: &Tcp, milliseconds: u8| {
        let wake = end.caps().wake.clone().unwrap();
        poll(&mut [PollFd::new(wake[0].as_fd(), PollFlags::POLLIN)], PollTimeout::from(milliseconds)).unwrap() == 1
    };
    // Some idle looks, as before one sleeps, and nothing wakes.
    for end in &mut ends {
        (0..100).for_each(|_| assert!(receive(end).is_empty()));
        assert!(!awake(end, 0));
    }
    send(&mut ends[0], to, 1, 100);
    ends[0].flush();
    assert!(awake(&ends[1], 250));
    assert_eq!(receive_so_many(&mut ends[1], 1), [1]);
    // Until the socket takes no more; then the other side reads.
    let mut sent = 0;
    while counter(&ends[0], "tcp_full") == 0 {
        let frame = numbered(&ends[0], to, sent, 65_000);
        sent += ends[0].send(to, &frame) as u32;
        ends[0].flush();
    }
    (0..100).for_each(|_| assert!(receive(&mut ends[0]).is_empty()));
    assert!(!awake(&ends[0], 0));
    let mut arrived = 0;
    while arrived < 20 {
        arrived += receive(&mut ends[1]).len();
    }
    assert!(awake(&ends[0], 250));
    assert_eq!(FLOW.id(), 7);
}
