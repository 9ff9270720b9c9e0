//! Any bytes to the steering: it decides as parsing does, and bounces what it should.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the other targets use the rest")]
#[path = "../../datapath/wire/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|bytes: &[u8]| {
    for frame in [bytes, &checks::aimed(bytes)] {
        checks::steer(frame);
        checks::bounce(frame);
    }
});
