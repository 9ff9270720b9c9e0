//! The trace of a transport.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::ends::{counter, ends, numbered, receive, send};
use am_transport::Transport;
use am_transport::loopback::LoopbackOptions;
use am_transport::trace::Trace;
use am_wire::Buffer;

/// A file in memory with limited room.
#[derive(Clone)]
struct Disk(Rc<RefCell<Vec<u8>>>, usize);

impl Disk {
    fn new(room: usize) -> Disk {
        Disk(Rc::default(), room)
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.0.borrow_mut();
        if file.len() + bytes.len() > self.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time and the bytes of each frame in a file.
fn frames(file: &[u8]) -> Vec<(Duration, Vec<u8>)> {
    let number = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().unwrap());
    let (head, mut rest) = file.split_at(24);
    assert_eq!(head[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0], "nanoseconds, version 2.4");
    assert_eq!(number(&head[20..]), 1, "Ethernet");
    let mut frames = vec![];
    while !rest.is_empty() {
        let [seconds, nanos, captured, length] = [0, 4, 8, 12].map(|at| number(&rest[at..]));
        assert_eq!(captured, length);
        let (frame, next) = rest[16..].split_at(length as usize);
        frames.push((Duration::new(seconds.into(), nanos), frame.to_vec()));
        rest = next;
    }
    frames
}

#[test]
fn every_frame_is_written_both_ways() {
    let [left, mut right] = ends(LoopbackOptions::default());
    let disk = Disk::new(usize::MAX);
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut left = Trace::new(left, disk.clone()).unwrap();
    let (to_left, to_right) = (left.caps().address, right.caps().address);
    send(&mut left, to_right, [1, 2]);
    send(&mut right, to_left, [3]);
    assert_eq!(receive(&mut left), [3]);
    assert_eq!(receive(&mut right), [1, 2]);

    let written = frames(&disk.0.borrow());
    let sent: Vec<Vec<u8>> = [1, 2].map(|n| numbered(&left, to_right, n).bytes().to_vec()).into();
    assert_eq!(written[0].1, sent[0]);
    assert_eq!(written[1].1, sent[1]);
    assert_eq!(written[2].1, numbered(&right, to_left, 3).bytes());
    assert_eq!(written.len(), 3);
    assert_eq!(counter(&left, "trace_frames"), 3);
    assert!(written.is_sorted_by_key(|(at, _)| at) && written[0].0 >= start);
}

#[test]
fn what_the_transport_gave_back_is_not_written() {
    let [left, right] = ends(LoopbackOptions { queue: 2, ..LoopbackOptions::default() });
    let disk = Disk::new(usize::MAX);
    let mut left = Trace::new(left, disk.clone()).unwrap();
    let to = right.caps().address;
    send(&mut left, to, [1, 2]);
    let third = numbered(&left, to, 3);
    assert!(!left.send(to, &third));
    assert_eq!(frames(&disk.0.borrow()).len(), 2);
}

#[test]
fn a_full_disk_ends_the_trace_and_nothing_else() {
    let [left, mut right] = ends(LoopbackOptions::default());
    let disk = Disk::new(24 + 16 + 60 + 20);
    let mut left = Trace::new(left, disk.clone()).unwrap();
    let to = right.caps().address;
    send(&mut left, to, 0..10);
    assert_eq!(receive(&mut right).len(), 10);
    assert_eq!((counter(&left, "trace_frames"), counter(&left, "trace_ended")), (1, 1));
    assert_eq!(left.error().get().unwrap().kind(), io::ErrorKind::StorageFull);
    assert!(Trace::new(right, Disk::new(10)).is_err());
}

#[test]
fn a_file_is_complete_after_a_flush() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("left.pcap");
    let [left, right] = ends(LoopbackOptions::default());
    let mut left = Trace::create(left, &path).unwrap();
    let to = right.caps().address;
    send(&mut left, to, 0..5);
    assert_eq!(frames(&std::fs::read(&path).unwrap()).len(), 5);
    assert!(Trace::create(right, directory.path().join("no/such/directory")).is_err());
}
