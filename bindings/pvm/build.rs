//! The linker options of `libpvm_am.so`.

const LIBRARY: &str = "pvm_am";

include!("../library.rs");
