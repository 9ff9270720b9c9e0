//! Any bytes as a frame: refused, or taken apart and written again as the same frame.
#![no_main]

use fuzz::checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    checks::frame_parse(bytes);
    checks::frame_parse(&checks::aimed(bytes));
});
