//! The owner of a frame at each time.

use am_ring::{Frame, Pool};
use am_wire::Buffer;

use super::frames::FLOW;
use super::{CheckFailure, Checked, Pair, ensure, frames};
use crate::TransportExt;

pub(super) fn a_shared_frame_can_be_sent_and_comes_back(mut pair: Pair) -> Checked {
    pair.open_flow();
    let spec = pair.spec(1, 300);
    for _ in 0..10 {
        let Some(mut kept) = pair.build(&spec) else { return Err(CheckFailure("the pool is empty".into())) };
        let before = kept.bytes().to_vec();
        // A retransmit queue sends a frame, keeps it, and sends it again.
        for _ in 0..3 {
            pair.send_frame(spec.to, &kept, &mut |_| ())?;
        }
        pair.until("a frame that was sent was not given back", &mut |_| (), &mut |_| kept.is_unique())?;
        ensure!(kept.bytes() == before, "a frame that was sent has changed");
        ensure!(kept.space().is_some(), "a frame that was given back cannot be written");
    }
    Ok(())
}

/// Receive this many frames, and keep them.
fn keep(pair: &mut Pair, wanted: usize) -> Result<Vec<Frame>, CheckFailure> {
    let mut kept = Vec::with_capacity(wanted);
    for number in 0.. {
        if kept.len() >= wanted {
            break;
        }
        let spec = pair.spec(number, 60 + number as usize % 200);
        pair.send(&spec, &mut |frame| kept.push(frame))?;
        pair.turn(&mut |frame| kept.push(frame));
    }
    Ok(kept)
}

fn check(kept: &[Frame]) -> Checked {
    kept.iter().try_for_each(|frame| frames::read_number(frame).map(drop))
}

pub(super) fn frames_that_are_kept_do_not_stop_it(mut pair: Pair) -> Checked {
    pair.open_flow();
    let smallest = pair.near.caps().pool.layout().frames.min(pair.far.caps().pool.layout().frames);
    let kept = keep(&mut pair, smallest / 4)?;
    for round in 0..20 {
        let specs: Vec<_> = (0..32).map(|number| pair.spec(round * 32 + number, 150)).collect();
        pair.deliver(&specs)?;
    }
    check(&kept)
}

pub(super) fn frames_outlive_their_transport(mut pair: Pair) -> Checked {
    pair.open_flow();
    let kept = keep(&mut pair, 16)?;
    drop(pair);
    check(&kept)
}

fn check_all_free(pool: &Pool, whose: &str) -> Checked {
    let (available, frames) = (pool.available(), pool.layout().frames);
    ensure!(available == frames, "{} of the {frames} frames of the {whose} end did not come home", frames - available);
    Ok(())
}

pub(super) fn every_frame_comes_home(mut pair: Pair) -> Checked {
    pair.open_flow();
    let pools = [pair.near.caps().pool.clone(), pair.far.caps().pool.clone()];
    let kept = keep(&mut pair, 40)?;
    pair = pair.swapped();
    let kept_there = keep(&mut pair, 40)?;
    // Some frames are queued, and some are on their way, when the ends are closed.
    for number in 0..20 {
        let spec = pair.spec(number, 100);
        pair.send(&spec, &mut |_| ())?;
        if number == 10 {
            pair.near.flush();
        }
    }
    drop(pair);
    drop((kept, kept_there));
    check_all_free(&pools[0], "near")?;
    check_all_free(&pools[1], "far")
}

/// Some turns of traffic. The check itself allocates nothing here.
fn traffic(pair: &mut Pair, rounds: u64) -> u64 {
    let mut arrived = 0;
    for number in 0..rounds {
        let spec = pair.spec(number, 60 + number as usize % 1000);
        if let Some(frame) = pair.build(&spec) {
            let _ = pair.near.send(spec.to, &frame);
        }
        pair.turn(&mut |_| arrived += 1);
        if number % 16 == 0 {
            pair.far.steer(FLOW, true);
        }
    }
    arrived
}

pub(super) fn nothing_is_allocated_after_open(
    mut pair: Pair,
    allocations: &dyn Fn(&mut dyn FnMut()) -> u64,
) -> Checked {
    pair.open_flow();
    // A transport may allocate at its first frames.
    traffic(&mut pair, 64);
    let mut arrived = 0;
    let count = allocations(&mut || arrived += traffic(&mut pair, 5000));
    ensure!(arrived > 0, "nothing arrived, so nothing was measured");
    ensure!(count == 0, "{count} allocations while {arrived} frames arrived");
    Ok(())
}
