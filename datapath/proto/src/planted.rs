//! Bugs on purpose: a checker that has caught none is no checker.
//!
//! Each is there only with the feature `planted`, which tests switch on, and
//! then only on a thread that asked for it. Otherwise [`is`] is `false` before
//! the compiler is done.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Now and then a message is handled and its credit is not given back.
    CreditLeak,
    /// Who gets more credit gets one that nobody has counted.
    CreditMadeUp,
    /// Numbers are compared as if they did not wrap: after the wrap, what came
    /// before it and comes again is new.
    DuplicateAfterWrap,
    /// What a receiver returned is kept, and never sent again.
    LostReject,
    /// A small message goes with others in a bundle, or not at all.
    WaitsForCompany,
    /// Acknowledgements are taken whatever use of the flow id they are for;
    /// and every run of a node gives out the same flow ids.
    OtherIncarnation,
    /// A frame is taken with whatever length it arrives.
    LengthIgnored,
    /// What came with a gap before it does not wait for what is missing.
    OutOfOrder,
    /// A close does not say that the last message has arrived.
    CloseForgets,
    /// Peers that were killed are asked for ever.
    DeadStay,
    /// However much made-up frames ask for is said.
    NoRate,
    /// What later messages have passed counts as lost, however often it only comes late.
    LateIsLost,
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// From now on this thread's cores have that bug, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
        am_wire::planted::ignore_lengths(bug == Some(Bug::LengthIgnored));
    }

    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub(crate) use switch::is;
#[cfg(feature = "planted")]
pub use switch::plant;

#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
