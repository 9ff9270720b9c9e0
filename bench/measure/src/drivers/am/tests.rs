use std::rc::Rc;
use std::time::Instant;

use am_transport::loopback::wire;

use super::*;

/// Both sides, connected.
pub(crate) fn pair() -> [Am; 2] {
    let mut ends = wire(2).into_iter().map(|plug| plug.open().unwrap());
    let mut open = |name| {
        Am::listening(node(Idle::spinning(), name, DriverOptions::default(), Box::new(ends.next().unwrap())).unwrap())
            .unwrap()
    };
    let (mut near, mut far) = (Am { is_near: true, ..open("alpha") }, open("beta"));
    let to = near.endpoint.connect("beta", ENDPOINT).unwrap();
    near.state.other = Some(to);
    // The far side learns its peer's address from what it receives.
    while far.state.other.is_none() {
        near.send_control(ControlMessage::Ended).unwrap_or_default();
        near.receive(1).unwrap();
        far.receive(1).unwrap();
    }
    [near, far]
}

/// What arrives while the near side sends at least `messages`.
fn stream([near, far]: &mut [Am; 2], messages: u64) -> Arrived {
    let (mut all, begin) = (Arrived::default(), Instant::now());
    while all.messages < messages {
        assert!(begin.elapsed() < Duration::from_secs(20), "{all:?}");
        near.send(8).unwrap();
        near.receive(8).unwrap();
        all.add(far.receive(8).unwrap());
    }
    all
}
/// A different piece of each transfer is compared, so every changed byte is found.
#[test]
fn transfers_are_what_was_sent_and_a_changed_byte_is_found() {
    for spoilt in [None, Some(0), Some(5000), Some(10_000)] {
        let mut pair = pair();
        pair.iter_mut().for_each(|side| side.transfer(10_000, false).unwrap());
        let places = &mut pair[0].state.transfers.memory;
        if let Some(at) = spoilt {
            places.iter_mut().for_each(|place| Rc::get_mut(place).unwrap()[at] ^= 1);
        }
        let arrived = stream(&mut pair, 400);
        assert_eq!(arrived.wrong > 0, spoilt.is_some(), "{spoilt:?}: {arrived:?}");
    }
}

/// The bytes of an earlier transfer do not pass for those of a later one.
#[test]
fn a_transfer_that_leaves_its_place_as_it_was_is_wrong() {
    let mut pair = pair();
    pair.iter_mut().for_each(|side| side.transfer(10_000, false).unwrap());
    assert_eq!(stream(&mut pair, 100).wrong, 0);
    // From now on transfers bring the bytes that are there already.
    let transfers = &mut pair[0].state.transfers;
    transfers.begun.iter_mut().for_each(|begun| *begun += 1);
    assert!(stream(&mut pair, 100).wrong > 0);
}
