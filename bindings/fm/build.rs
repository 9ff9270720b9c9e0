//! What the linker is told of `libamfm.so`.

const LIBRARY: &str = "amfm";

include!("../library.rs");
