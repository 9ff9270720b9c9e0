//! A transport's description of itself: caps and counters.

use std::collections::BTreeMap;

use super::Pair;
use super::report::{CheckFailure, CheckResult, ensure};
use crate::Transport;

/// Every link carries an Ethernet frame of the smallest size.
const SMALLEST: usize = am_wire::frame::MIN_FRAME;

pub(super) fn caps_are_sane(pair: Pair) -> Result<CheckResult, CheckFailure> {
    for end in [&pair.near, &pair.far] {
        let caps = end.caps();
        ensure!(!caps.name.is_empty() && !caps.mode.is_empty(), "name `{}`, mode `{}`", caps.name, caps.mode);
        let address = caps.address;
        ensure!(!address.is_group() && address.to_u64() != 0, "{address} cannot be the address of one host");
        ensure!(caps.max_frame >= SMALLEST, "the longest frame has {} bytes, fewer than {SMALLEST}", caps.max_frame);
        let frame = caps.pool.take();
        let room = frame.as_ref().map(|frame| frame.room());
        ensure!(room >= Some(caps.max_frame), "a frame of the pool has room for {room:?}, not {}", caps.max_frame);
    }
    let (near, far) = (pair.near.caps().address, pair.far.caps().address);
    ensure!(near != far, "both ends have the address {near}");
    Ok(CheckResult::Passed)
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

pub(super) fn counters_have_names_and_grow(mut pair: Pair) -> Result<CheckResult, CheckFailure> {
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
    Ok(CheckResult::Passed)
}
