//! The linker options of `libam2.so`.

const LIBRARY: &str = "am2";

include!("../library.rs");
