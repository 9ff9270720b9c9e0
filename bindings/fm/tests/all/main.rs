//! C programs against the library.

use am_testing::c_program::Library;

mod c;
mod transports;

/// The library under test.
const LIBRARY: Library = Library { name: "amfm", root: env!("CARGO_MANIFEST_DIR") };

am_testing::test_installed!(crate::LIBRARY, &["1000 round trips of four words", " 0 bytes wrong"]);
