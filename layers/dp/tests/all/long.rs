//! Messages longer than a frame.

use am_dp::{Dpid, Nid, ReadError, WriteError};

use crate::common::{connect, graph, is_readable, open, poll_all, take, until, write};

fn message(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn a_message_may_be_as_long_as_the_pool() {
    let mut graph = graph("sim:21,loss=0.02", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 100_000));
    connect(&mut graph, (0, &from), 1, 2);
    for len in [1, 1400, 1500, 2000, 3000, 65_537, 100_000, 5, 100_000, 99_999] {
        write(&mut graph, (0, &from), &message(len, len as u8));
        assert!(take(&mut graph, (1, &to)) == message(len, len as u8), "{len} bytes");
    }
}

#[test]
fn one_that_no_pool_holds_is_reported_once() {
    let mut graph = graph("sim:22", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 8192));
    connect(&mut graph, (0, &from), 1, 2);
    write(&mut graph, (0, &from), &message(9000, 1));
    let too_long = WriteError::TooLong { len: 9000, most: 8192 };
    let said = until(&mut graph, |graph| match graph[0].write(&from, b"short") {
        Err(WriteError::Full) => None,
        Err(error) => Some(error),
        // It was written before the answer came.
        Ok(()) => None,
    });
    assert_eq!(said, too_long);
    assert_eq!(graph[0].write(&from, &message(9000, 2)), Err(too_long));
    write(&mut graph, (0, &from), &message(8192, 3));
    loop {
        let taken = take(&mut graph, (1, &to));
        if taken.len() > 5 {
            assert!(taken == message(8192, 3));
            break;
        }
        assert_eq!(taken, b"short");
    }
}

/// A program that waits for the answer by reading, or on its descriptor, gets the error, too.
#[test]
fn one_that_no_pool_holds_is_reported_to_a_reader() {
    let mut graph = graph("sim:26", 2);
    let (from, to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 8192));
    connect(&mut graph, (0, &from), 1, 2);
    write(&mut graph, (0, &from), &message(9000, 1));
    until(&mut graph, |_| is_readable(&from).then_some(()));
    let too_long = ReadError::TooLong { nid: Nid(1), dpid: Dpid(2), len: 9000, most: 8192 };
    assert_eq!(graph[0].read(&from), Err(too_long));
    assert!(graph[0].read(&from) == Ok(None) && !is_readable(&from), "once");
    // The write does not say it again.
    write(&mut graph, (0, &from), b"short");
    assert_eq!(take(&mut graph, (1, &to)), b"short");
    // What a write says no read says.
    let too_long = WriteError::TooLong { len: 9001, most: 8192 };
    assert_eq!(graph[0].write(&from, &message(9001, 2)), Err(too_long));
    assert_eq!(graph[0].read(&from), Ok(None));
}

/// The writer hears of it from the next write, and its descriptor is not readable after a read that finds nothing.
#[test]
fn what_a_write_has_reported_no_read_reports() {
    let mut graph = graph("sim:27", 2);
    let (from, _to) = (open(&mut graph, 0, 1, 4096), open(&mut graph, 1, 2, 8192));
    connect(&mut graph, (0, &from), 1, 2);
    write(&mut graph, (0, &from), &message(9000, 1));
    until(&mut graph, |_| is_readable(&from).then_some(()));
    assert_eq!(graph[0].write(&from, b"short"), Err(WriteError::TooLong { len: 9000, most: 8192 }));
    assert!(graph[0].read(&from) == Ok(None) && !is_readable(&from));
}

/// Long messages of several senders share a pool that holds little more than one of them, with short ones between.
#[test]
fn senders_of_long_messages_take_turns() {
    let mut graph = graph("sim:23,loss=0.01", 4);
    let to = open(&mut graph, 0, 9, 70_000);
    let senders: Vec<_> = (1..4).map(|at| open(&mut graph, at, at as u32, 4096)).collect();
    for (at, sender) in senders.iter().enumerate() {
        connect(&mut graph, (at + 1, sender), 0, 9);
    }
    const EACH: usize = 30;
    let mut next = [0; 3];
    let mut taken = [0; 3];
    let length = |sender: usize, number: usize| if number % 3 == sender { 40_000 } else { 10 + number };
    while taken != [EACH; 3] {
        for sender in 0..3 {
            let number = next[sender];
            if number < EACH {
                let mut text = message(length(sender, number), number as u8);
                text[0] = sender as u8;
                next[sender] += usize::from(graph[sender + 1].write(&senders[sender], &text).is_ok());
            }
        }
        poll_all(&mut graph);
        while let Some(place) = graph[0].read(&to).unwrap() {
            let text = graph[0].bytes(&to, &place).unwrap().to_vec();
            let sender = usize::from(text[0]);
            let number = taken[sender];
            assert!(text[1..] == message(length(sender, number), number as u8)[1..], "{sender}: {number}");
            taken[sender] += 1;
            assert!(graph[0].fsync(&to, 1));
        }
    }
}

/// What a sender that dies leaves incomplete is dropped, and its room is free again.
#[test]
fn half_a_message_is_none() {
    let mut graph = graph("sim:24", 3);
    let to = open(&mut graph, 0, 9, 50_000);
    let (dies, lives) = (open(&mut graph, 1, 1, 4096), open(&mut graph, 2, 2, 4096));
    connect(&mut graph, (1, &dies), 0, 9);
    connect(&mut graph, (2, &lives), 0, 9);
    graph[1].write(&dies, &message(50_000, 1)).unwrap();
    (0..3).for_each(|_| _ = graph[0].poll());
    let gone = graph.remove(1);
    drop((gone, dies));
    write(&mut graph, (1, &lives), &message(50_000, 2));
    until(&mut graph, |graph| graph[0].read(&to).unwrap_or(None)).len();
    assert!(graph[0].fsync(&to, 1));
}

/// The writer dies between the parts of a message, and another process gets its DPID at once. The reader gets an error, has room for the
/// second writer's message, and gets no part of the first message.
#[test]
fn an_heir_gets_the_room_of_half_a_message() {
    let open_as = |nid| {
        let nodes = am_dp::Nodes::found(am_dp::Nid(nid), 25, "sim:25");
        am_dp::Dp::new(am_api::Node::open(nodes.own_name(), "sim:25").unwrap(), nodes).unwrap()
    };
    let mut graph = vec![open_as(0), open_as(1)];
    let (to, dies) = (open(&mut graph, 0, 9, 300_000), open(&mut graph, 1, 1, 4096));
    connect(&mut graph, (1, &dies), 0, 9);
    graph[1].write(&dies, &message(300_000, 1)).unwrap();
    graph[0].poll();
    // It says nothing any more, and the kernel gives its claim back.
    let mut dead = graph.pop().unwrap();
    dead.close(dies);
    graph.push(open_as(1));
    let heir = open(&mut graph, 1, 1, 4096);
    connect(&mut graph, (1, &heir), 0, 9);
    write(&mut graph, (1, &heir), &message(300_000, 2));
    let place = until(&mut graph, |graph| graph[0].read(&to).unwrap_or(None));
    assert!(graph[0].bytes(&to, &place).unwrap() == message(300_000, 2));
}
