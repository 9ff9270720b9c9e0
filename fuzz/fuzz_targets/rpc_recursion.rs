//! Any bytes as types that contain themselves.
#![no_main]

use fuzz::rpc_checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rpc_checks::recursion(bytes);
});
