//! Any bytes as what a program gives the daemon: its first packet, or a frame in its lane.
#![no_main]

use am_testing::amd::checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    checks::judged(bytes);
    checks::judged_after_another(bytes);
    checks::greeted(bytes);
});
