//! C programs against the library.

#[path = "../../../test-support/program.rs"]
mod program;

mod c;
mod common;
mod graph;
#[path = "../../../test-support/installed.rs"]
mod installed;
#[path = "../graph/mod.rs"]
mod launch;
mod launched;
mod numbers;

/// The library under test.
const LIBRARY: &str = "amdp";
/// What its example says.
const PING: &[&str] = &["1000 round trips of 1 bytes"];
