//! Any bytes as the body of a coalesced frame.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the other targets use the rest")]
#[path = "../../datapath/wire/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|bytes: &[u8]| {
    checks::coalesced(bytes);
});
