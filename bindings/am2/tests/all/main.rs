//! C programs against the library.

#[path = "../../../test-support/program.rs"]
mod program;

mod c;
mod header;
#[path = "../../../test-support/installed.rs"]
mod installed;
#[path = "../../../../am-api/tests/page/mod.rs"]
mod page;

/// The library under test.
const LIBRARY: &str = "am2";
/// What its example says.
const PING: &[&str] = &["1002 answers, 0 wrong"];
