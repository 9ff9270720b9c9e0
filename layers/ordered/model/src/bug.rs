//! Bugs that are planted on purpose, each a rule left out. A model that cannot fail shows nothing.

use am_ordered_core::{MemberId, Promise};

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A member that promises goes on in its epoch, and promises others.
    Unsealed,
    /// The next log begins behind the last message that anybody holds, whatever is missing before it.
    BeyondGap,
    /// A member installs a view before it has the log.
    BeforeFetch,
    /// A candidate takes its own view for the latest, whatever others have promised.
    OwnIsLatest,
    /// A member keeps messages beyond the end of the epoch that had stamped them.
    KeptBeyondEnd,
    /// A message of an earlier epoch is taken into the log.
    StaleEpoch,
    /// A safe message is delivered like any other.
    SafeAtOnce,
    /// A process that has a state takes one of an earlier view, and forgets what it has promised since.
    EarlierState,
    /// A member that diverged gives up all of its log for another member's state.
    LogForState,
    /// Of promises of one view a candidate takes any, not the one that knows most about which views are current.
    AnyOfLatest,
    /// A member that is put out ends while others may need its promise.
    EndsEarly,
    /// A member that diverged never becomes a candidate.
    DivergedIsMute,
    /// A member that diverged cuts its log before it has another member's state.
    CutEarly,
    /// A member waits for ever for a message that is only in others' states.
    GapForEver,
}

/// What a candidate with a bug reads in promises.
pub(crate) fn spoil(bug: Option<Bug>, own: &Promise, promises: &mut [(MemberId, Promise)]) {
    let last = |promise: &Promise| promise.chain.last().map(|view| view.epoch);
    let all: Vec<Promise> = promises.iter().map(|(_, promise)| promise.clone()).collect();
    for (_, promise) in promises {
        match bug {
            Some(Bug::OwnIsLatest) => (promise.chain, promise.history) = (own.chain.clone(), own.history.clone()),
            Some(Bug::AnyOfLatest) => {
                let same = all.iter().filter(|other| last(other) == last(promise)).map(|other| &other.chain);
                promise.chain = same.max_by_key(|chain| chain.len()).unwrap_or(&promise.chain).clone();
            }
            _ => (),
        }
    }
}
