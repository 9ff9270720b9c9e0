//! A transport's description of itself, full queues and budgets.

use std::collections::BTreeMap;

use am_ring::Frame;
use am_wire::Buffer;
use am_wire::frame::MIN_FRAME;

use super::pair::StepResult;
use super::{CheckFailure, Checked, Pair, ensure};
use crate::Transport;

pub(super) fn caps_are_sane(pair: Pair) -> Checked {
    for end in [&pair.near, &pair.far] {
        let caps = end.caps();
        ensure!(!caps.name.is_empty() && !caps.mode.is_empty(), "name `{}`, mode `{}`", caps.name, caps.mode);
        let address = caps.address;
        ensure!(!address.is_group() && address.to_u64() != 0, "{address} cannot be the address of one host");
        // Every link carries an Ethernet frame of the smallest size.
        ensure!(caps.max_frame >= MIN_FRAME, "the longest frame has {} bytes, fewer than {MIN_FRAME}", caps.max_frame);
        let frame = caps.pool.take();
        let room = frame.as_ref().map(|frame| frame.room());
        ensure!(room >= Some(caps.max_frame), "a frame of the pool has room for {room:?}, not {}", caps.max_frame);
    }
    let (near, far) = (pair.near.caps().address, pair.far.caps().address);
    ensure!(near != far, "both ends have the address {near}");
    Ok(())
}

fn counters(end: &dyn Transport) -> Result<BTreeMap<&'static str, u64>, CheckFailure> {
    let mut all = BTreeMap::new();
    let mut twice = None;
    end.counters(&mut |name, value| {
        if name.is_empty() || all.insert(name, value).is_some() {
            twice = Some(name);
        }
    });
    ensure!(twice.is_none(), "a counter without a name, or two named {twice:?}");
    Ok(all)
}

pub(super) fn counters_have_names_and_grow(mut pair: Pair) -> Checked {
    pair.open_flow();
    let before = [counters(&*pair.near)?, counters(&*pair.far)?];
    let specs: Vec<_> = (0..10).map(|number| pair.spec(number, 100)).collect();
    pair.deliver(&specs)?;
    let after = [counters(&*pair.near)?, counters(&*pair.far)?];
    for (side, before, after) in [("sends", &before[0], &after[0]), ("receives", &before[1], &after[1])] {
        ensure!(before.keys().eq(after.keys()), "the end that {side} has other counters than before");
        let grown = after.iter().filter(|(name, value)| **value >= before[*name] + 10).count();
        ensure!(grown > 0, "ten frames, and no counter of the end that {side} has grown by ten: {after:?}");
    }
    Ok(())
}

/// Receive with a budget. Checks that the returned count is the number of calls.
fn receive(pair: &mut Pair, budget: usize) -> Result<usize, CheckFailure> {
    let mut calls = 0;
    let taken = pair.far.receive(budget, &mut |_| calls += 1);
    ensure!(taken == calls, "`receive` says {taken} and has handed over {calls} frames");
    ensure!(taken <= budget, "{taken} frames were handed over on a budget of {budget}");
    Ok(taken)
}

pub(super) fn receive_honours_its_budget(mut pair: Pair) -> Checked {
    pair.open_flow();
    for budget in [1, 3, 7] {
        let mut number = 0;
        let mut wanted = 10;
        pair.repeat_until_done("frames did not arrive", &mut |pair| {
            // More than the budget, as far as there is room.
            for _ in 0..8 {
                let spec = pair.spec(number, 100);
                number += u64::from(pair.build(&spec).is_some_and(|frame| pair.near.send(spec.to, &frame)));
                pair.near.flush();
            }
            receive(pair, 0)?;
            let taken = receive(pair, budget)?;
            pair.far.flush();
            wanted = usize::saturating_sub(wanted, taken);
            Ok(match (wanted, taken) {
                (0, _) => StepResult::Done,
                (_, 0) => StepResult::Nothing,
                _ => StepResult::Progress,
            })
        })?;
    }
    Ok(())
}

pub(super) fn an_idle_link_gives_nothing(mut pair: Pair) -> Checked {
    pair.open_flow();
    pair.drain()?;
    for _ in 0..100 {
        let mut calls = 0;
        pair.near.flush();
        let taken = pair.far.receive(usize::MAX, &mut |_| calls += 1);
        ensure!(taken == 0 && calls == 0, "no frame was sent, but {taken} frames (in {calls} calls) arrived");
    }
    Ok(())
}

/// Send without a doorbell until the transport is full. Returns the frame for which there was no room, and how many went.
fn fill(pair: &mut Pair) -> Result<(Frame, u64), CheckFailure> {
    for number in 0..=pair.near.caps().pool.layout().frames as u64 {
        let spec = pair.spec(number, 100);
        let Some(frame) = pair.build(&spec) else {
            return Err(CheckFailure(format!("the pool ran out after {number} frames, before the transport was full")));
        };
        if !pair.near.send(spec.to, &frame) {
            return Ok((frame, number));
        }
    }
    Err(CheckFailure("it took more frames than its pool has, and was not full".into()))
}

pub(super) fn a_full_transport_leaves_the_frame_alone(mut pair: Pair) -> Checked {
    pair.open_flow();
    for _ in 0..3 {
        let (frame, number) = fill(&mut pair)?;
        let spec = pair.spec(number, 100);
        let expected = pair.build(&spec).map(|frame| frame.bytes().to_vec());
        ensure!(expected.is_none_or(|bytes| bytes == frame.bytes()), "frame {number} was not sent, and was changed");
        ensure!(frame.is_unique(), "frame {number} was not sent, and the transport holds it");
        pair.send_frame(spec.to, &frame, &mut |_| ())?;
        // The link works as before.
        pair.drain()?;
        let again: Vec<_> = (0..64).map(|number| pair.spec(number, 200)).collect();
        pair.deliver(&again)?;
        pair.drain()?;
    }
    Ok(())
}
