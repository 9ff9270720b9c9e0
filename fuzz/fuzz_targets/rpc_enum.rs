//! Any bytes as an enum with variants of each kind.
#![no_main]

use fuzz::rpc_checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rpc_checks::choices(bytes);
});
