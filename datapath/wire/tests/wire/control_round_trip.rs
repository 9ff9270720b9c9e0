//! Control messages: back and forth, their longest, and what is cut off.

use am_wire::control::{Beacon, Connect, ConnectFlags, Control, FlowParameters, Incarnation, Name, NodeId, Purpose};
use am_wire::{Address, Flow, Framings, Reason, Seq};
use proptest::prelude::*;

use crate::any;

fn body(control: &Control) -> Vec<u8> {
    let mut body = [any::STALE; Control::MAX_BYTES];
    let length = control.emit(&mut body);
    assert!(body[length..].iter().all(|&byte| byte == any::STALE), "written past its length");
    body[..length].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn comes_back_as_it_was_written(control in any::control()) {
        prop_assert_eq!(Control::parse(&body(&control)), Ok(control));
    }

    #[test]
    fn cut_anywhere_or_longer_it_is_refused(control in any::control(), more in any::<u8>()) {
        let mut body = body(&control);
        for length in 0..body.len() {
            prop_assert_eq!(Control::parse(&body[..length]), Err(Reason::Body));
        }
        body.push(more);
        let padded = if control.is_padded() { Ok(control) } else { Err(Reason::Body) };
        prop_assert_eq!(Control::parse(&body), padded);
    }
}

/// The longest is a `Connect` between two endpoints with the longest names.
#[test]
fn the_longest_fits() {
    let name = Name::new(&"n".repeat(Name::MAX_BYTES)).unwrap();
    let offer = FlowParameters {
        flow: Flow::new(1).unwrap(),
        nonce: 0,
        first: [Seq(0); 2],
        credits: [0; 2],
        max_frame: 1514,
        max_message: 1 << 20,
    };
    let (node, incarnation) = (NodeId(1), Incarnation(2));
    let connect = Control::Connect(Connect {
        id: 1,
        node,
        incarnation,
        from: name,
        to: name,
        tag: 3,
        flags: ConnectFlags::ORDERED,
        offer,
    });
    let (address, framings) = (Address::BROADCAST, Framings::ALL);
    let beacon =
        Control::Beacon(Beacon { node, incarnation, name, address, framings, max_frame: 1514, purpose: Purpose::Ask });
    assert_eq!(body(&connect).len(), 118);
    assert!(body(&beacon).len() < body(&connect).len());
    assert!(body(&connect).len() <= Control::MAX_BYTES);
}

#[test]
fn flow_zero_is_never_offered_or_closed() {
    let accept = [3, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0, 8, 0, 8, 0, 0, 5, 0xea];
    assert_eq!(Control::parse(&accept), Err(Reason::Body));
    assert_eq!(Control::parse(&[9, 0, 0, 0, 7, 0, 0, 0, 0, 0]), Err(Reason::Body));
    assert!(Control::parse(&[9, 0, 1, 0, 7, 0, 0, 0, 0, 0]).is_ok());
    assert_eq!(Control::parse(&[9, 0, 1, 0, 7, 0, 0, 0, 1, 0]), Err(Reason::Body), "a nonce of no flow");
    assert_eq!(Control::parse(&[9, 0x40, 0, 0, 7, 0, 0, 0, 0, 0]), Err(Reason::Body), "a flow id has 14 bits");
    assert_eq!(Control::parse(&[9, 0, 1, 0, 7, 0, 0, 0, 0, 1]), Err(Reason::Body), "what was received is missing");
}

#[test]
fn names_are_short_printable_and_not_empty() {
    assert!(Name::new("alpha").is_some());
    assert!(Name::new(&"é".repeat(15)).is_some(), "30 bytes");
    for bad in ["", "bell\u{7}", "esc\u{1b}[2J", "two\nlines"] {
        assert_eq!(Name::new(bad), None, "{bad:?}");
    }
    assert_eq!(Name::new(&"é".repeat(16)), None, "32 bytes");
}

#[test]
fn names_that_are_not_utf8_are_refused() {
    let mut beacon = vec![1];
    beacon.extend([0; 16]);
    beacon.extend([2, 0xff, 0xfe]);
    beacon.extend([2, 0, 0, 0, 0, 1, 7, 0, 0, 5, 0xea, 0]);
    assert_eq!(Control::parse(&beacon), Err(Reason::Body));
    beacon[18..20].copy_from_slice(b"ok");
    assert!(Control::parse(&beacon).is_ok());
    *beacon.last_mut().unwrap() = 3;
    assert_eq!(Control::parse(&beacon), Err(Reason::Body), "a purpose is 0, 1 or 2");
}

#[test]
fn unknown_messages_steps_and_refusals_are_refused() {
    for code in (10..=u8::MAX).chain([0]) {
        assert_eq!(Control::parse(&[code, 0, 0, 0, 1, 1]), Err(Reason::Body));
    }
    for value in 0..=u8::MAX {
        let is_known = |code| Control::parse(&[code, 0, 0, 0, 1, value]).is_ok();
        // A refusal from 129 on names another member of the group.
        assert_eq!((is_known(4), is_known(7)), (matches!(value, 1..=4 | 129..), matches!(value, 1..=4)));
    }
}

#[test]
fn members_of_a_group_are_named_by_their_number() {
    let name = |text: &str| Name::new(text).unwrap();
    for (number, member) in [(1, "a#1"), (10, "a#10"), (127, "a#127")] {
        assert_eq!(name("a").member(number), Some(name(member)));
        assert_eq!(name(member).member(number), None);
        assert_eq!((name(member).group_of_member(number), name(member).group_of_member(2)), (Some(name("a")), None));
    }
    assert_eq!(name("a").member(0), None);
    let long = name(&"é".repeat(14));
    assert_eq!(long.member(9), Some(name(&format!("{long}#9"))));
    assert_eq!((long.member(10), name(&"x".repeat(30)).member(1)), (Some(name(&format!("{long}#10"))), None));
}
