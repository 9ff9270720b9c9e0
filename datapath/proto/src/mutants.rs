//! Mutants: bugs built in on purpose. A checker that has never caught one is not trusted.
//!
//! Mutants exist only with the feature `planted`, which tests enable, and then only on a thread that activated one.
//! Otherwise `is_active` is a constant `false`.

/// A bug that a test can activate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Now and then a handled message does not return its credit.
    CreditLeak,
    /// A sender that gets more credit gets one more than was counted.
    CreditMadeUp,
    /// Sequence numbers are compared as if they did not wrap: after the wrap, duplicates from before it pass as new.
    DuplicateAfterWrap,
    /// A rejected message is kept, and never sent again.
    LostReject,
    /// A small message is sent in a coalesced frame or not at all.
    WaitsForCompany,
    /// Acknowledgements are accepted for any use of a flow id, and each run of a node gives out the same flow ids.
    OtherIncarnation,
    /// A frame is accepted with a wrong length.
    LengthIgnored,
    /// A message behind a gap does not wait for the missing one.
    OutOfOrder,
    /// A Close omits the last message that arrived.
    CloseForgets,
    /// A killed peer is asked for ever.
    DeadStay,
    /// Answers to forged frames have no rate limit.
    NoRate,
    /// An overtaken message counts as lost, however often such messages only come late.
    LateIsLost,
    /// A peer that is alive and does not poll counts as silent.
    BusyIsDead,
    /// A node introduces itself as often among a thousand members as among ten.
    RatesStay,
    /// A member that is found silent is reported to no other node.
    SilenceStays,
    /// A segment of a long message is noted and not copied.
    SegmentLost,
    /// A segment of a long message goes to the first one of its connection.
    SegmentOfAnother,
    /// A long message is handled twice.
    LongTwice,
    /// No bug, but a twin: the general code accepts each frame, also where a shorter way exists.
    GeneralWay,
}

#[cfg(feature = "planted")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Activate this mutant, or none, for this thread's cores.
#[cfg(feature = "planted")]
pub fn activate(bug: Option<Mutant>) {
    ACTIVE.set(bug);
    am_wire::planted::IGNORES_LENGTHS.set(bug == Some(Mutant::LengthIgnored));
}

/// Whether this bug is planted on this thread.
#[inline(always)]
pub fn is_active(_bug: Mutant) -> bool {
    #[cfg(feature = "planted")]
    return ACTIVE.get() == Some(_bug);
    #[cfg(not(feature = "planted"))]
    false
}
