//! What threads have seen, held against one copy. The order of the writes is known, so no search is needed: each read is given the first place at which one
//! copy had its value.

use std::collections::BTreeMap;

use crate::error::CallError;
use crate::simulated::model::{OneCopy, Ran};

/// What a thread has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    Write(u64),
    Read,
    Latest,
}

/// A call of a thread, and its end.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) thread: usize,
    pub(super) called: Called,
    pub(super) object: u64,
    /// Places in the history. `None`: it has not ended.
    pub(super) begins: usize,
    pub(super) ends: Option<usize>,
    pub(super) outcome: Option<Result<u64, CallError>>,
}

/// Whether one copy could have been seen so: by all writes and latest reads of an object in real time (linearizable), and by each thread in its own order
/// (sequentially consistent).
pub(super) fn check(events: &[Event], copy: &OneCopy) -> Result<(), String> {
    let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
    let begins: BTreeMap<usize, usize> = events.iter().enumerate().map(|(at, event)| (event.begins, at)).collect();
    ends.extend(events.iter().enumerate().filter_map(|(at, event)| Some((event.ends?, at))));
    // Behind these places the next calls are: of each object, and of each thread.
    let (mut floors, mut threads) = (BTreeMap::<u64, u64>::new(), BTreeMap::<usize, u64>::new());
    let mut after: Vec<u64> = vec![0; events.len()];
    let last = ends.keys().chain(begins.keys()).max().copied().unwrap_or(0);
    for time in 0..=last {
        if let Some(at) = begins.get(&time) {
            let of_thread = threads.get(&events[*at].thread).copied().unwrap_or(0);
            let floor = floors.get(&events[*at].object).copied().unwrap_or(0);
            after[*at] = if events[*at].called == Called::Read { of_thread } else { of_thread.max(floor) };
        }
        if let Some(at) = ends.get(&time) {
            let event = &events[*at];
            let place = place(event, after[*at], copy).map_err(|why| format!("{event:?}: {why}"))?;
            let Some(place) = place else { continue };
            if event.called != Called::Read {
                let floor = floors.entry(event.object).or_default();
                *floor = place.max(*floor);
            }
            let of_thread = threads.entry(event.thread).or_default();
            *of_thread = place.max(*of_thread);
        }
    }
    Ok(())
}

/// The place in the order behind which a call is. A call without a result says nothing.
fn place(event: &Event, after: u64, copy: &OneCopy) -> Result<Option<u64>, String> {
    let value = match (event.called, event.outcome) {
        (Called::Write(tag), Some(Err(CallError::NotRun))) => {
            return match copy.ran.get(&tag) {
                None => Ok(None),
                Some(ran) => Err(format!("its caller was told that it has not run, and it has: {ran:?}")),
            };
        }
        (_, Some(Ok(value))) => value,
        (_, None | Some(Err(_))) => return Ok(None),
    };
    if let Called::Write(tag) = event.called {
        let Ran { at, result } = copy.ran.get(&tag).ok_or("it has a result, and did not run")?;
        return match *result == value && *at >= after {
            true => Ok(Some(at + 1)),
            false => Err(format!("one copy has {result} at {at}, and the calls before it end at {after}")),
        };
    }
    let values = (after..).zip(copy.values.iter().skip(after as usize).chain([&copy.desk.value]));
    let mut seen = values.filter(|(_, seen)| **seen == value);
    let place = seen.next().map(|(at, _)| Some(at));
    place.ok_or(format!("one copy has not that value behind {after}"))
}
