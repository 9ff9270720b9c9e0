//! **The project's rules** that the compiler and clippy cannot check (`[workspace.lints]` has the others).
//!
//! ```text
//!   every file, lexed ──┬─▶ edges     which crate may depend on which
//!   cargo metadata ─────┤   circles   no modules of a crate need each other in a circle
//!                       │   guards    no borrow lives through the body of a loop or `match` unseen
//!                       └─▶ text      the lengths of files; words that are forbidden, such as one machine's paths;
//!                             │       links to files and headings that exist
//!                             ▼
//!                       violations: where, what, and the fix
//! ```
//!
//! Read first: `tests/house.rs`, which runs all checks over this repository; then [`edges::RULES`], the architecture.
//! Each check is a function from files to violations. Its tests plant a violation, which it must find.
#![forbid(unsafe_code)]

pub mod circles;
pub mod edges;
pub mod guards;
mod modules;
pub mod repository;
pub mod text;

use std::fmt;

/// A place where a rule does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// File and line, or crate.
    pub place: String,
    /// What is wrong there.
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
