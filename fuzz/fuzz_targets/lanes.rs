//! Any bytes as a script of what a program does to the memory that it shares with the daemon.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

#[path = "../../amd/tests/by_hand/mod.rs"]
mod by_hand;
#[path = "../../amd/tests/all/intruder.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod intruder;
#[path = "../../amd/tests/lanes/mod.rs"]
mod lanes;

thread_local! {
    // One for all scripts: what one of them does must not change what the next one finds.
    static WORLD: RefCell<lanes::World> = RefCell::new(lanes::World::new());
}

fuzz_target!(|bytes: &[u8]| {
    WORLD.with_borrow_mut(|world| world.play(bytes));
});
