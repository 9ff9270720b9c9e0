//! A node whose name another program has is refused when it opens.

use am_api::Node;
use am_vnic::VnicOptions;

use crate::common::{Place, Running, list, port, until};

fn open(place: &Place) -> Result<Node, String> {
    Node::open("alpha", &format!("amd:{}", place.socket().display())).map_err(|error| error.to_string())
}

fn is_refused(place: &Place) {
    let why = open(place).expect_err("the name is taken");
    assert!(why.contains("has the name `alpha`: choose another"), "{why}");
}

#[test]
fn a_name_that_is_taken_is_refused_until_its_program_has_left() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    for _ in 0..20 {
        // The run before has left just now, and the daemon need not have seen it.
        let node = open(&place).expect("the name is free");
        is_refused(&place);
        drop(node);
    }
    until("all have left", || list(&place.socket()).ports.is_empty());
}

/// Also before the first beacon.
#[test]
fn a_name_is_taken_when_its_program_attaches() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let node = am_api::Name::new("alpha");
    let attached = am_vnic::open(&VnicOptions { node, ..VnicOptions::new(place.socket()) }).expect("a port");
    assert!(port(&place.socket(), "alpha").is_none(), "it has sent no beacon");
    is_refused(&place);
    drop(attached);
    drop(open(&place).expect("the name is free"));
}
