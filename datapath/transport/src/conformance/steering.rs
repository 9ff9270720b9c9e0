//! Steering: frames that are not for a node are not handed over.

use std::cell::Cell;

use am_wire::{Address, Flow, Reason};

use super::frames::{FLOW, Spec};
use super::{CheckFailure, Checked, Pair, ensure};
use crate::{Transport, TransportExt};

/// A flow that is never opened.
const STRANGE: Flow = Flow::new(99).unwrap();

/// The sum of the counters whose names end with `end`, if there is one.
fn counter(transport: &dyn Transport, end: &str) -> Option<u64> {
    let mut found = None;
    transport.counters(&mut |name, value| {
        if name.ends_with(end) {
            found = Some(found.unwrap_or(0) + value);
        }
    });
    found
}

/// Send a frame until the far end's counter for `reason` grows. The frame must not be handed over.
pub(super) fn expect_dropped(pair: &mut Pair, reason: Reason, spec: &Spec) -> Checked {
    let Some(before) = counter(&*pair.far, reason.name()) else {
        return Err(CheckFailure(format!("no counter has a name that ends in `{}`", reason.name())));
    };
    let seen = Cell::new(0);
    let hope = format!("`{}` did not grow", reason.name());
    pair.until(&hope, &mut |_| seen.set(seen.get() + 1), &mut |pair| {
        // A lossy link may lose some, so the frame is sent again.
        if let Some(frame) = pair.build(spec) {
            let _ = pair.near.send(spec.to, &frame);
        }
        seen.get() > 0 || counter(&*pair.far, reason.name()) > Some(before)
    })?;
    let seen = seen.get() + pair.drain()?.len();
    ensure!(seen == 0, "{seen} frames were handed over that steering drops as `{}`", reason.name());
    Ok(())
}

pub(super) fn unknown_flows_are_dropped_and_counted(mut pair: Pair) -> Checked {
    pair.open_flow();
    let strange = Spec { flow: STRANGE, ..pair.spec(0, 100) };
    expect_dropped(&mut pair, Reason::NoFlow, &strange)
}

pub(super) fn steering_follows_the_flows(mut pair: Pair) -> Checked {
    let spec = pair.spec(1, 100);
    expect_dropped(&mut pair, Reason::NoFlow, &spec)?;
    for _ in 0..3 {
        pair.far.steer(FLOW, true);
        pair.deliver(&[spec])?;
        // Frames that are still on their way may arrive, so they are drained first.
        pair.drain()?;
        pair.far.steer(FLOW, false);
        expect_dropped(&mut pair, Reason::NoFlow, &spec)?;
    }
    Ok(())
}

pub(super) fn frames_for_others_are_not_seen(mut pair: Pair) -> Checked {
    pair.open_flow();
    let elsewhere = Spec { to: Address([0x02, 0, 0, 0xfe, 0xfe, 0xfe]), ..pair.spec(1, 100) };
    let foreign = Spec { damage: |bytes| bytes[12..14].copy_from_slice(&[0x08, 0x00]), ..pair.spec(2, 100) };
    let marker = pair.spec(3, 100);
    let mut seen = vec![];
    for _ in 0..10 {
        pair.send_and_collect(&elsewhere, true, &mut seen)?;
        pair.send_and_collect(&foreign, true, &mut seen)?;
        seen.extend(pair.deliver(&[marker])?);
    }
    seen.extend(pair.drain()?);
    seen.retain(|number| *number != marker.number);
    ensure!(seen.is_empty(), "frames {seen:?} were seen: 1 is for another host, 2 of another EtherType");
    Ok(())
}

pub(super) fn garbage_is_dropped_and_counted_by_reason(mut pair: Pair) -> Checked {
    pair.open_flow();
    let good = pair.spec(4, 100);
    // A header in the source address has group bit 0 and local bit 1.
    expect_dropped(&mut pair, Reason::Source, &Spec { damage: |bytes| forge(bytes, 0x00), ..good })?;
    // Its two top bits are the version. There is no version 2.
    expect_dropped(&mut pair, Reason::Version, &Spec { damage: |bytes| forge(bytes, 0x82), ..good })?;
    // In `bare` the next four bits are the form. There is no form 14.
    expect_dropped(&mut pair, Reason::Kind, &Spec { damage: |bytes| forge(bytes, 0x72), ..good })?;
    // The length code does not fit the frame.
    expect_dropped(&mut pair, Reason::Length, &Spec { damage: |bytes| bytes[19] ^= 1, ..good })?;
    expect_dropped(&mut pair, Reason::NodeFlow, &Spec { flow: Flow::NODE, ..good })?;
    // Afterwards a good frame still arrives.
    pair.deliver(&[good]).map(drop)
}

/// Turn a frame into one with a header in its source address that starts with this byte.
fn forge(bytes: &mut [u8], first: u8) {
    bytes[6..12].copy_from_slice(&[first, 0, 0, 0, 0, 1]);
    // The frame was built as `plain`. The EtherType of the other framings is one less.
    bytes[13] -= 1;
}
