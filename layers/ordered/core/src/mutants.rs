//! Mutants: bugs built in on purpose. A checker that has never caught one is not trusted.
//!
//! Mutants exist only with the feature `planted`, which tests enable, and then only on a thread that activated one.

/// A bug that a test can activate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// After a change of the view a member submits what the last epoch has numbered already.
    StampedTwice,
    /// After a change of the view the last member gets no credits.
    Starved,
    /// A credit returns twice.
    CreditTwice,
    /// A member keeps what it holds beyond the beginning of the next epoch, which has other messages there.
    GapFilledTwice,
    /// A process is a member before it has the state.
    CountedEarly,
    /// A safe message is delivered like any other.
    SafeAtOnce,
    /// A sequencer goes on though no majority answers.
    LeaseForEver,
    /// A member that wants to know how far the order has got believes itself.
    NoMajorityAsked,
    /// A gap is never asked for.
    GapForEver,
    /// A piece of another state is taken, if its number fits.
    PieceOfAnotherState,
    /// A process that joins misses what is delivered while a part of its state is made.
    MissedMeanwhile,
}

#[cfg(feature = "planted")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Activate this mutant, or none, for this thread's members.
#[cfg(feature = "planted")]
pub fn activate(bug: Option<Mutant>) {
    ACTIVE.set(bug);
}

/// Whether this bug is planted on this thread.
#[inline(always)]
pub(crate) fn is_active(_bug: Mutant) -> bool {
    #[cfg(feature = "planted")]
    return ACTIVE.get() == Some(_bug);
    #[cfg(not(feature = "planted"))]
    false
}
