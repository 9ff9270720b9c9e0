//! C programs against the library.

use am_testing::c_program::Library;

mod c;
mod graph;
mod launched;
mod numbers;

/// The library under test.
const LIBRARY: Library = Library { name: "amdp", root: env!("CARGO_MANIFEST_DIR") };

am_testing::test_installed!(crate::LIBRARY, &["1000 round trips of 1 bytes"]);
