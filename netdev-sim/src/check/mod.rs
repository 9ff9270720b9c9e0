//! The promises that hold whatever the network does.
//!
//! A checker gets the events of a run, and knows nothing of the code that causes them. It returns a [`Violation`] immediately, so
//! the run stops at the event that broke the promise.

pub mod content;
pub mod credits;
pub mod delivery;
pub mod endings;
pub mod frames;
pub mod seeds;
pub mod transfers;
pub mod turns;

/// A broken promise.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{checker}: {what}")]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// What happened.
    pub what: String,
}

am_transport::debug_as_display!(Violation);

/// The verdict of a checker.
pub type Checked = Result<(), Violation>;

/// Check that a promise holds. Otherwise `what` says what happened.
pub(crate) fn ensure(holds: bool, checker: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Violation { checker, what: what() }) }
}
