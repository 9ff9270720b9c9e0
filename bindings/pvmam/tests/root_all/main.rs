//! C programs on two hosts. Needs root.

use am_testing::c_program::Library;

mod c;

/// The library under test.
const LIBRARY: Library = Library { name: "pvmam", root: env!("CARGO_MANIFEST_DIR") };
