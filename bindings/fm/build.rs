//! The linker options of `libamfm.so`.

const LIBRARY: &str = "amfm";

include!("../library.rs");
