//! C programs against the library.

#[path = "../../../test-support/program.rs"]
mod program;

mod c;
#[path = "../../../test-support/installed.rs"]
mod installed;
mod transports;

/// The library under test.
const LIBRARY: &str = "amfm";
/// What its example says.
const PING: &[&str] = &["1000 round trips of four words", " 0 bytes wrong"];
