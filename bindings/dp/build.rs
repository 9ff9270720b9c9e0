//! The linker options of `libamdp.so`.

const LIBRARY: &str = "amdp";

include!("../library.rs");
