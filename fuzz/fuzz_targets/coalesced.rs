//! Any bytes as the body of a coalesced frame.
#![no_main]

use fuzz::checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    checks::coalesced(bytes);
});
