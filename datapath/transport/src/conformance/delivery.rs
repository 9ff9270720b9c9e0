//! Delivery: sent frames arrive.

use std::collections::BTreeSet;

use super::frames::Spec;
use super::{CheckFailure, Checked, Pair, ensure, frames};

/// Enough frames to wrap every queue.
const FRAMES: u64 = 2000;
/// The most frames under way at once.
const MAX_UNDER_WAY: usize = 32;
/// Beyond a page only every `STEP`th size is tried, and the largest ones.
const PAGE: usize = 4096;
const SIZE_STEP: usize = 61;

pub(super) fn frames_of_every_size_arrive_intact(mut pair: Pair) -> Checked {
    pair.open_flow();
    let most = pair.max_frame();
    let tried = |len: &usize| *len <= PAGE || len.is_multiple_of(SIZE_STEP) || len + MAX_UNDER_WAY > most;
    let sizes = (am_wire::frame::MIN_FRAME..=most).filter(tried);
    let sizes: Vec<Spec> = sizes.map(|len| pair.spec(len as u64, len)).collect();
    for specs in sizes.chunks(MAX_UNDER_WAY) {
        pair.deliver(specs)?;
    }
    Ok(())
}

/// Send many frames, each once. Returns the numbers of those that arrive.
fn send_many(mut pair: Pair) -> Result<Vec<u64>, CheckFailure> {
    pair.open_flow();
    let mut arrived = vec![];
    for number in 0..FRAMES {
        let spec = pair.spec(number, 60 + number as usize % 100);
        pair.send_and_collect(&spec, number % MAX_UNDER_WAY as u64 == 0, &mut arrived)?;
    }
    arrived.extend(pair.drain()?);
    Ok(arrived)
}

pub(super) fn frames_arrive_in_order(pair: Pair) -> Checked {
    let arrived = send_many(pair)?;
    ensure!(!arrived.is_empty(), "none of {FRAMES} frames arrived");
    let wrong = arrived.windows(2).find(|two| two[0] > two[1]);
    ensure!(wrong.is_none(), "frames arrived in this order: {wrong:?}");
    Ok(())
}

pub(super) fn nothing_is_lost_or_doubled(pair: Pair) -> Checked {
    let arrived = send_many(pair)?;
    let different: BTreeSet<u64> = arrived.iter().copied().collect();
    ensure!(arrived.len() == different.len(), "{} frames arrived more than once", arrived.len() - different.len());
    ensure!(different.len() as u64 == FRAMES, "{} of {FRAMES} frames arrived", different.len());
    Ok(())
}

pub(super) fn both_ends_send_at_once(mut pair: Pair) -> Checked {
    pair.open_flow();
    for round in 0..20 {
        let specs: Vec<Spec> = (0..8).map(|number| pair.spec(round * 8 + number, 200)).collect();
        // Frames wait in one direction while the other is used.
        let mut arrived = vec![];
        for spec in &specs {
            pair.send_and_collect(spec, false, &mut arrived)?;
        }
        pair.near.flush();
        pair = pair.swapped();
        let back: Vec<Spec> = specs.iter().map(|spec| Spec { to: pair.far.caps().address, ..*spec }).collect();
        pair.deliver(&back)?;
        pair = pair.swapped();
        arrived.extend(pair.drain()?);
        let numbers = specs.iter().map(|spec| spec.number);
        let missing: Vec<u64> = numbers.filter(|number| !arrived.contains(number)).collect();
        ensure!(!pair.near.caps().reliable || missing.is_empty(), "frames {missing:?} did not arrive");
    }
    Ok(())
}

pub(super) fn broadcast_reaches_the_other_end_only(mut pair: Pair) -> Checked {
    let specs: Vec<Spec> = (0..MAX_UNDER_WAY as u64).map(Spec::broadcast).collect();
    pair.deliver(&specs)?;
    let mut own = vec![];
    pair.near.receive(MAX_UNDER_WAY, &mut |frame| own.push(frames::read_number(&frame)));
    ensure!(own.is_empty(), "the sender heard its own broadcast: {own:?}");
    Ok(())
}
