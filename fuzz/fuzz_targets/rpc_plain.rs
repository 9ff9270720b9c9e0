//! Any bytes as views of plain data, at each address.
#![no_main]

use fuzz::rpc_checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rpc_checks::plain(bytes);
});
