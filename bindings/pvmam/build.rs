//! The linker options of `libpvmam.so`.

const LIBRARY: &str = "pvmam";

include!("../library.rs");
