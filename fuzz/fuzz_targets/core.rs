//! Any bytes as the script of somebody who forges frames.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../datapath/proto/tests/all/forger/mod.rs"]
mod forger;
#[path = "../../datapath/proto/tests/all/harness/mod.rs"]
mod harness;

fuzz_target!(|bytes: &[u8]| {
    forger::play(bytes);
});
