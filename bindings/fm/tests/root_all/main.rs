//! C programs on two hosts. Needs root.

#[path = "../../../test-support/program.rs"]
mod program;

mod c;

/// The library under test.
const LIBRARY: &str = "amfm";
