//! The promises that hold whatever the network does, one file for each.
//!
//! A checker is told what happened, and knows nothing of the code that did it. It returns a [`Violation`] at once, so
//! the run stops at the event that broke the promise.

pub mod content;
pub mod credits;
pub mod delivery;
pub mod endings;
pub mod frames;
pub mod kept;
pub mod liveness;
pub mod memory;
pub mod order;
pub mod transfers;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{checker}: {what}")]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// What happened.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(checker: &'static str, what: String) -> Violation {
        Violation { checker, what }
    }
}

/// The verdict of a checker.
pub type Checked = Result<(), Violation>;
