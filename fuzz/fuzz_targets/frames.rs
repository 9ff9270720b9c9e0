//! Any bytes as a script of what a program does with the safe interfaces of `ring`.
#![no_main]

use am_ring::Pool;
use libfuzzer_sys::fuzz_target;

#[path = "../../datapath/ring/tests/script/mod.rs"]
mod script;

/// Nine bytes a step: which, and its number.
fn steps(bytes: &[u8]) -> Vec<(u8, usize)> {
    bytes.as_chunks::<9>().0.iter().map(|[step, number @ ..]| (*step, u64::from_le_bytes(*number) as usize)).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, rest)) = bytes.split_first() else { return };
    match which % 3 {
        0 => drop(script::play_frames(&Pool::heap(script::LAYOUT).unwrap(), &steps(rest))),
        1 => script::play_lane(&steps(rest)),
        _ => script::play_leases(&steps(rest)),
    }
});
