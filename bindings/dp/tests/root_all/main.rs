//! Graphs of processes on four hosts. Needs root.

#[allow(dead_code, reason = "Open MPI starts none of these")]
#[path = "../../../../am-run/tests/root_all/lab.rs"]
mod lab;
#[path = "../graph/mod.rs"]
mod launch;
#[path = "../../../test-support/program.rs"]
mod program;

mod redirect;

/// The library under test.
const LIBRARY: &str = "amdp";
