//! Mutants: bugs that the simulation plants, and has to catch.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// After a write the ones that wait are not tried again.
    NotTriedAgain,
    /// A state lacks the last write.
    StateMissesAWrite,
    /// A call whose fate is not known is sent again.
    RunTwice,
    /// Where an object has moved to a process, the others go on with their copies.
    TwoPlacements,
    /// A write that waits while its object is written for a process that joins is lost.
    WaitingWriteIsLost,
}

thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Plant this bug, or none, on this thread.
pub(crate) fn plant(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

pub(crate) fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}
