//! **The rules of the house.** A rule that nobody checks is a wish: what
//! `CONTRIBUTING.md` asks for and a program can see, a test looks at.
//!
//! ```text
//!   every file, lexed ──┬─▶ edges     who may depend on whom
//!   cargo metadata ─────┤   circles   which modules of a crate need each other
//!                       │   unsafety  where `unsafe` may be, and its SAFETY comments
//!                       │   sizes     lines of a file, lines of a function
//!                       │   words     paths of one machine, things left for later
//!                       │   skips     nothing ignored, nothing skipped
//!                       │   pages     every crate says what it is
//!                       └─▶ links     what a page points to is there
//!                             │
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
pub mod links;
mod modules;
pub mod pages;
pub mod repository;
pub mod sizes;
pub mod skips;
mod tokens;
pub mod unsafety;
pub mod words;

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
