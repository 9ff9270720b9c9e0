//! C programs against the library.

use am_testing::c_program::Library;

mod c;
mod header;

/// The library under test.
const LIBRARY: Library = Library { name: "am2", root: env!("CARGO_MANIFEST_DIR") };

am_testing::test_installed!(crate::LIBRARY, &["1002 answers, 0 wrong"]);
