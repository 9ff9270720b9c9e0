//! C programs against the library.

use am_testing::page;

#[path = "../../../test-support/program.rs"]
mod program;

mod c;
mod header;
#[path = "../../../test-support/installed.rs"]
mod installed;

/// The library under test.
const LIBRARY: &str = "am2";
/// What its example says.
const PING: &[&str] = &["1002 answers, 0 wrong"];
