//! Any bytes to the steering: it decides as parsing does, and bounces what it should.
#![no_main]

use fuzz::checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for frame in [bytes, &checks::aimed(bytes)] {
        checks::steer(frame);
        checks::bounce(frame);
    }
});
