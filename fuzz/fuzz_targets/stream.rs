//! Any bytes as a TCP stream, in any pieces: the same frames, and the same nonsense at the same place.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../datapath/sockets/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|bytes: &[u8]| checks::stream(bytes));
