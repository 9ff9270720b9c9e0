//! C programs against the library.

use am_testing::c_program::Library;

mod c;
mod transports;

/// The library under test.
const LIBRARY: Library = Library { name: "pvmam", root: env!("CARGO_MANIFEST_DIR") };

am_testing::test_installed!(crate::LIBRARY, &["1000 round trips without data", " 0 bytes wrong"]);
