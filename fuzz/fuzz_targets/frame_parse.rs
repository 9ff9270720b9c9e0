//! Any bytes as a frame: refused, or taken apart and written again as the same frame.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the other targets use the rest")]
#[path = "../../datapath/wire/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|bytes: &[u8]| {
    checks::frame_parse(bytes);
    checks::frame_parse(&checks::aimed(bytes));
});
