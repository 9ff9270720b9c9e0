//! Added addresses: an end serves more addresses than its own.

use am_wire::{Address, AddressSet, Flow, Reason};

use super::frames::{FLOW, Spec};
use super::steering::expect_dropped;
use super::{Checked, Pair, ensure};
use crate::TransportExt;

/// An address of a node behind the far end.
pub(super) const ADDED: Address = Address([0x82, 0, 0, 0xad, 0xde, 0xd0]);

/// Flows that are never opened.
const CLOSED: [Flow; 2] = [FLOW, Flow::new(99).unwrap()];

pub(super) fn an_added_address_is_served_until_it_is_removed(mut pair: Pair) -> Checked {
    for _ in 0..2 {
        ensure!(pair.far.add_address(ADDED).is_ok(), "the address was refused, though it was accepted before");
    }
    // The node behind the far end introduces itself, so that the near end knows where it is.
    pair = pair.swapped();
    pair.deliver(&[Spec { from: Some(ADDED), ..Spec::broadcast(1) }])?;
    pair = pair.swapped();
    let messages = CLOSED.map(|flow| Spec { flow, ..Spec::new(ADDED, 10 + u64::from(flow.id()), 200) });
    let arrived = pair.deliver(&[messages[0], messages[1], Spec::control(ADDED, 3), Spec::broadcast(4)])?;
    let broadcasts = arrived.iter().filter(|number| **number == 4).count();
    ensure!(!pair.near.caps().reliable || broadcasts == 1, "a broadcast was handed over {broadcasts} times");
    // The far end still judges frames to its own address, and malformed ones. Duplicates may still be on their way.
    pair.drain()?;
    let own = Spec { to: pair.far.caps().address, ..messages[0] };
    expect_dropped(&mut pair, Reason::NoFlow, &own)?;
    expect_dropped(&mut pair, Reason::Length, &Spec { damage: |bytes| bytes[19] ^= 1, ..messages[1] })?;

    pair.far.remove_address(ADDED);
    pair.drain()?;
    pair.open_flow();
    let (marker, mut seen) = (pair.spec(5, 100), vec![]);
    for _ in 0..10 {
        for spec in &messages {
            pair.send_and_collect(spec, true, &mut seen)?;
        }
        seen.extend(pair.deliver(&[marker])?);
    }
    seen.extend(pair.drain()?);
    seen.retain(|number| *number != marker.number);
    ensure!(seen.is_empty(), "frames {seen:?} to a removed address were handed over");
    Ok(())
}

pub(super) fn added_addresses_are_bounded(mut pair: Pair) -> Checked {
    let address = |number: usize| Address::from_u64(ADDED.to_u64() + number as u64);
    for number in 0..AddressSet::MAX {
        let added = pair.far.add_address(address(number));
        ensure!(added.is_ok(), "address {number} was refused: {added:?}");
    }
    let one_more = address(AddressSet::MAX);
    ensure!(pair.far.add_address(one_more).is_err(), "{} addresses were accepted", AddressSet::MAX + 1);
    let own = pair.far.caps().address;
    for senseless in [Address::BROADCAST, Address([0; 6]), own] {
        ensure!(pair.far.add_address(senseless).is_err(), "the address {senseless} was accepted");
    }
    pair.far.remove_address(address(0));
    ensure!(pair.far.add_address(one_more).is_ok(), "a removed address makes no room");
    pair.deliver(&[Spec::new(one_more, 1, 100), Spec::new(address(1), 2, 100)]).map(drop)
}
