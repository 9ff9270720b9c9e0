//! Any bytes as a struct with fields of each kind.
#![no_main]

use fuzz::rpc_checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rpc_checks::fields(bytes);
});
