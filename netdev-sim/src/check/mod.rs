//! What must hold whatever the network does, one file for each promise.
//!
//! A checker is told what happened, knows nothing of how, and says a
//! [`Violation`] as soon as there is one: the run stops at the event that broke
//! the promise, not where somebody noticed.

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

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{checker}: {what}")]
pub struct Violation {
    /// Which checker says so.
    pub checker: &'static str,
    /// What happened.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(checker: &'static str, what: String) -> Violation {
        Violation { checker, what }
    }
}

/// What a checker says.
pub type Checked = Result<(), Violation>;
