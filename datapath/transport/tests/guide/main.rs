//! What `docs/transports.md` says of writing a transport is so: its example
//! passes the suite, and is quoted as it is.

mod link;

use allocation_counter::measure;
use transport::Transport;
use transport::conformance::{self, Pair};
use wire::{Address, Buffer};

const PAGE: &str = include_str!("../../../../docs/transports.md");
const EXAMPLE: &str = include_str!("link.rs");

#[test]
fn the_example_passes_the_suite() {
    let make = || {
        let [near, far] = link::pair().expect("two sockets");
        Pair::new(near, far)
    };
    let report = conformance::run(make, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn the_example_says_when_its_other_end_is_gone() {
    let [mut near, far] = link::pair().expect("two sockets");
    assert_eq!(near.broken(), None);
    drop(far);
    let frame = near.caps().pool.copy(&[0; 60]).expect("a frame");
    assert_eq!(frame.bytes().len(), 60);
    near.send(Address::BROADCAST, frame).expect("a frame for nobody is lost");
    assert_eq!(near.broken(), Some("the other end was closed"));
}

/// The guide shows the whole example, in order, and no other code in Rust.
#[test]
fn the_guide_quotes_the_example() {
    let blocks = PAGE.split("\n```rust\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default());
    let quoted: Vec<&str> = blocks.flat_map(str::lines).filter(|line| !line.is_empty()).collect();
    let code: Vec<&str> = EXAMPLE.lines().filter(|line| !line.is_empty()).collect();
    for (number, (quoted, line)) in quoted.iter().zip(&code).enumerate() {
        assert_eq!(quoted, line, "line {number} of the code in docs/transports.md is not that of link.rs");
    }
    assert_eq!(quoted.len(), code.len(), "docs/transports.md ends before link.rs does, or after it");
}
