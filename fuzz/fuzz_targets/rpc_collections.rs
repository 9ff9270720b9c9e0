//! Any bytes as lists, maps and sets.
#![no_main]

use fuzz::rpc_checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rpc_checks::collections(bytes);
});
