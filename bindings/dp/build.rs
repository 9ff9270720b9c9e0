//! What the linker is told of `libamdp.so`.

const LIBRARY: &str = "amdp";

include!("../library.rs");
