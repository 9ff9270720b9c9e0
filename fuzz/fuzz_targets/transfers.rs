//! Any bytes as the script of somebody who forges parts of bulk transfers.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../am-api/tests/all/forger/mod.rs"]
mod forger;

fuzz_target!(|bytes: &[u8]| {
    forger::play(bytes);
});
