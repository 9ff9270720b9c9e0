//! The writes of an object whose guards do not hold.

use std::collections::BTreeMap;

use crate::ask::Caller;
use crate::command::SavedCall;
use crate::error::CallError;
use crate::replica::AnyReplica;

/// Writes that wait, by their operations, each in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    operations: BTreeMap<u16, BTreeMap<u64, SavedCall>>,
    /// Where each is: thousands may be cancelled at once.
    places: BTreeMap<Caller, (u16, u64)>,
    next: u64,
}

impl Waiting {
    pub(crate) fn push(&mut self, call: SavedCall) {
        self.places.insert(caller_of(&call), (call.operation, self.next));
        self.operations.entry(call.operation).or_default().insert(self.next, call);
        self.next += 1;
    }

    /// Those that a test keeps are left.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&SavedCall) -> bool) {
        self.operations.values_mut().for_each(|calls| calls.retain(|_, call| is_kept(call)));
        self.operations.retain(|_, calls| !calls.is_empty());
        let Waiting { operations, places, .. } = self;
        places.retain(|_, (operation, at)| operations.get(operation).is_some_and(|calls| calls.contains_key(at)));
    }

    /// Returns whether the call waited.
    pub(crate) fn remove(&mut self, caller: Caller) -> bool {
        self.places.get(&caller).copied().is_some_and(|(operation, at)| self.take(operation, at).is_some())
    }

    fn take(&mut self, operation: u16, at: u64) -> Option<SavedCall> {
        let calls = self.operations.get_mut(&operation)?;
        let call = calls.remove(&at)?;
        if calls.is_empty() {
            self.operations.remove(&operation);
        }
        self.places.remove(&caller_of(&call));
        Some(call)
    }

    /// The first one that can run now, or cannot run at all. Writes of an operation whose guard does not look at its arguments wait for the
    /// same: the first of them stands for all.
    pub(crate) fn take_next(&mut self, replica: &dyn AnyReplica) -> Option<(SavedCall, Result<(), CallError>)> {
        let mut first: Option<(u64, u16, Result<(), CallError>)> = None;
        for (operation, calls) in &self.operations {
            let has_arguments =
                replica.operation(usize::from(*operation)).is_some_and(|known| known.guard_has_arguments);
            let looked_at = if has_arguments { calls.len() } else { 1 };
            let earlier =
                calls.iter().take(looked_at).take_while(|(at, _)| first.is_none_or(|(first, ..)| **at < first));
            let ready = earlier.map(|(at, call)| (*at, replica.may_run(usize::from(*operation), &call.arguments)));
            if let Some((at, may_run)) = ready.into_iter().find(|(_, may_run)| *may_run != Ok(false)) {
                first = Some((at, *operation, may_run.map(drop)));
            }
        }
        let (at, operation, may_run) = first?;
        Some((self.take(operation, at)?, may_run))
    }

    /// All, in the order in which they came.
    pub(crate) fn all(&self) -> Vec<SavedCall> {
        let mut all: Vec<(&u64, &SavedCall)> = self.operations.values().flatten().collect();
        all.sort_unstable_by_key(|(at, _)| **at);
        all.into_iter().map(|(_, call)| call.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

fn caller_of(call: &SavedCall) -> Caller {
    Caller { process: call.caller, call: call.call }
}

impl FromIterator<SavedCall> for Waiting {
    fn from_iter<I: IntoIterator<Item = SavedCall>>(calls: I) -> Waiting {
        let mut waiting = Waiting::default();
        calls.into_iter().for_each(|call| waiting.push(call));
        waiting
    }
}
