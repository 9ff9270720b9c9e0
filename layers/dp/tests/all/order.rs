//! Messages arrive once, in order, whatever the network loses and however small the pool is.

use am_dp::{Dpid, OpenError, WriteError};

use crate::common::{connect, graph, open, poll_all, read, take, write};

#[test]
fn a_small_pool_loses_nothing() {
    let mut graph = graph("sim:11,loss=0.02", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 4096));
    connect(&mut graph, (0, &from), 1, 2);
    let (mut written, mut taken, mut turns, mut full) = (0u32, 0u32, 0u32, 0);
    while taken < 3000 {
        while written < 3000 {
            if let Err(why) = graph[0].write(&from, &[&written.to_le_bytes()[..], &[0; 400]].concat()) {
                assert_eq!(why, WriteError::Full);
                full += 1;
                break;
            }
            written += 1;
        }
        poll_all(&mut graph);
        // The reader is slow: it takes what is there now and then.
        turns += 1;
        if turns.is_multiple_of(5) {
            while let Some(place) = graph[1].read(&to).unwrap() {
                assert_eq!(graph[1].bytes(&to, &place).unwrap()[..4], taken.to_le_bytes());
                assert!(graph[1].fsync(&to, 1));
                taken += 1;
            }
        }
    }
    let traffic = graph[0].traffic(&from).unwrap();
    assert_eq!((traffic.written, graph[1].traffic(&to).unwrap().received), (3000, 3000));
    assert!(full > 0 && traffic.stalls == full, "the pool was full now and then: {full} times, and {traffic:?}");
}

#[test]
fn messages_stay_where_they_are_until_they_are_given_back() {
    let mut graph = graph("sim:12", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 4096));
    connect(&mut graph, (0, &from), 1, 2);
    for text in ["one", "two", "three"] {
        write(&mut graph, (0, &from), text.as_bytes());
    }
    let places = [(); 3].map(|()| read(&mut graph, (1, &to)));
    for (place, text) in places.iter().zip(["one", "two", "three"]) {
        assert_eq!(graph[1].bytes(&to, place).unwrap(), text.as_bytes());
    }
    assert!(!graph[1].fsync(&to, 4), "only three were read");
    assert!(graph[1].fsync(&to, 3) && !graph[1].fsync(&to, 1));
}

#[test]
fn read_into_takes_a_message_as_a_datagram() {
    let mut graph = graph("sim:13", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 4096));
    connect(&mut graph, (0, &from), 1, 2);
    for text in ["first", "second", "third"] {
        write(&mut graph, (0, &from), text.as_bytes());
    }
    let first = read(&mut graph, (1, &to));
    let mut buffer = [0; 4];
    let taken = crate::common::until(&mut graph, |graph| graph[1].read_into(&to, &mut buffer).unwrap());
    assert_eq!((taken, &buffer), (6, b"seco"));
    assert_eq!(graph[1].bytes(&to, &first).unwrap(), b"first", "an earlier one stays");
    assert!(graph[1].fsync(&to, 1));
    assert_eq!(take(&mut graph, (1, &to)), b"third");
}

#[test]
fn endpoints_of_one_process_are_joined_by_memory() {
    let mut graph = graph("sim:14", 1);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 0, 2, 4096));
    assert_eq!(graph[0].write(&from, b"to whom"), Err(WriteError::NotConnected));
    connect(&mut graph, (0, &from), 0, 2);
    assert_eq!(graph[0].edge(&from).map(|(nid, dpid)| (nid.0, dpid)), Some((0, Dpid(2))));
    let mut count = 0;
    while graph[0].write(&from, &[7; 1000]).is_ok() {
        count += 1;
    }
    assert_eq!(count, 4);
    assert_eq!(graph[0].write(&from, &[7; 4097]), Err(WriteError::TooLong { len: 4097, most: 4096 }));
    (0..count).for_each(|_| assert_eq!(take(&mut graph, (0, &to)), [7; 1000]));
    graph[0].close(to);
    assert!(matches!(graph[0].write(&from, b"gone"), Err(WriteError::Ended(_))));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut graph = graph("sim:15", 1);
    let point = open(&mut graph, 0, 1, 4096);
    assert!(matches!(graph[0].open(Dpid(1), vec![0; 4096]), Err(OpenError::InUse(Dpid(1)))));
    assert!(matches!(graph[0].open(Dpid(2), vec![0; 100]), Err(OpenError::PoolSize { size: 100, .. })));
    connect(&mut graph, (0, &point), 0, 1);
    assert_eq!(graph[0].write(&point, b""), Err(WriteError::Empty));
    graph[0].close(point);
    open(&mut graph, 0, 1, 4096);
}

/// In a stream several messages share a doorbell. The last of them do not wait for another write.
#[test]
fn a_stream_leaves_to_its_end() {
    let mut graph = graph("sim:16", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 65_536));
    connect(&mut graph, (0, &from), 1, 2);
    let written = (0..60u8).filter(|number| graph[0].write(&from, &[*number]).is_ok()).count();
    assert!(written > 30, "the receiver has room for {written}");
    graph[0].prepare_wait().unwrap();
    // The writer sleeps.
    for _ in 0..written {
        crate::common::until(&mut graph, |graph| {
            let place = graph[1].read(&to).unwrap()?;
            assert!(graph[1].fsync(&to, 1));
            Some(place)
        });
    }
}
