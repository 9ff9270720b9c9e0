//! **The rules of the house** that no lint of the compiler or of clippy can check (`[workspace.lints]` has those).
//!
//! ```text
//!   every file, lexed ──┬─▶ edges     who may depend on whom
//!   cargo metadata ─────┤   circles   which modules of a crate need each other
//!                       └─▶ text      lines of a file; paths of one machine, things left for later; what a page
//!                             │       points to is there
//!                             ▼
//!                       violations: where, what, and what to do about it
//! ```
//!
//! Read first: `tests/house.rs`, which runs them all over this repository; then
//! [`edges::RULES`], the drawing of the architecture that the compiler cannot check.
//! Each check is a function from files to violations, and has a planted one in its tests.
#![forbid(unsafe_code)]

pub mod circles;
pub mod edges;
mod modules;
pub mod repository;
pub mod text;

use std::fmt;

/// A rule that does not hold somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// File and line, or crate.
    pub place: String,
    /// What is there.
    pub what: String,
    /// What to do.
    pub fix: &'static str,
}

impl Violation {
    pub(crate) fn new(place: impl fmt::Display, what: impl fmt::Display, fix: &'static str) -> Self {
        Violation { place: place.to_string(), what: what.to_string(), fix }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.place, self.what, self.fix)
    }
}
