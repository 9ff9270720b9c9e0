//! The example in `docs/writing-a-transport.md` passes the conformance suite, and the page quotes it exactly.

mod link;

use std::os::unix::net::UnixDatagram;
use std::thread;

use allocation_counter::measure;
use am_transport::conformance::{self, Pair};
use am_transport::{Transport, TransportExt};
use am_wire::{Address, Buffer};
use link::Link;

const PAGE: &str = include_str!("../../../../docs/writing-a-transport.md");
const EXAMPLE: &str = include_str!("link.rs");
const HERE: &str = include_str!("main.rs");

#[test]
fn the_link_passes_the_suite() {
    let make = || {
        let (near, far) = UnixDatagram::pair().expect("two sockets");
        Pair::new(Link::open(near, 1).expect("memory"), Link::open(far, 2).expect("memory"))
    };
    let report = conformance::run(make, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn each_end_is_opened_on_its_own_thread() {
    let (near, far) = UnixDatagram::pair().expect("two sockets");
    let sends = thread::spawn(move || {
        let mut near = Link::open(near, 1).expect("memory");
        let frame = near.caps().pool.copy(&[0xff; 60]).expect("a frame");
        assert!(near.send(Address::BROADCAST, &frame), "room");
    });
    sends.join().expect("it was sent");
    let mut far = Link::open(far, 2).expect("memory");
    far.receive(1, &mut drop);
    let mut seen = 0;
    far.counters(&mut |_, value| seen += value);
    assert_eq!(seen, 1, "one frame, of somebody else's EtherType");
}

#[test]
fn the_example_says_when_its_other_end_is_gone() {
    let (near, far) = UnixDatagram::pair().expect("two sockets");
    let mut near = Link::open(near, 1).expect("memory");
    assert_eq!(near.link_error(), None);
    drop(far);
    let frame = near.caps().pool.copy(&[0; 60]).expect("a frame");
    assert_eq!(frame.bytes().len(), 60);
    assert!(near.send(Address::BROADCAST, &frame), "a frame for nobody is lost");
    assert_eq!(near.link_error().as_deref(), Some("the other end was closed"));
}

/// The page quotes the tests of this file.
#[test]
fn the_guide_quotes_this_file() {
    let blocks = PAGE.split("\n```rust,test\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default());
    let blocks: Vec<&str> = blocks.collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks.iter().flat_map(|block| block.split("\n\n")) {
        assert!(
            HERE.contains(block),
            "docs/writing-a-transport.md has code that guide/main.rs does not have:\n{block}"
        );
    }
}

/// The page shows the whole example, in order. Its only other Rust code is that of tests.
#[test]
fn the_guide_quotes_the_example() {
    let blocks = PAGE.split("\n```rust\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default());
    let quoted: Vec<&str> = blocks.flat_map(str::lines).filter(|line| !line.is_empty()).collect();
    let code: Vec<&str> = EXAMPLE.lines().filter(|line| !line.is_empty()).collect();
    for (number, (quoted, line)) in quoted.iter().zip(&code).enumerate() {
        assert_eq!(quoted, line, "line {number} of the code in docs/writing-a-transport.md is not that of link.rs");
    }
    assert_eq!(quoted.len(), code.len(), "docs/writing-a-transport.md ends before link.rs does, or after it");
}
