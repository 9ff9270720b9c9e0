//! Any bytes as a script of what a program does to the memory that it shares with the daemon.
#![no_main]

use std::cell::RefCell;

use am_testing::amd::lanes;
use libfuzzer_sys::fuzz_target;

/// A daemon takes this many programs of a user at once.
const SCRIPTS: u32 = 1_000;

thread_local! {
    // One for many scripts: what one of them does must not change what the next one finds.
    static WORLD: RefCell<(lanes::World, u32)> = RefCell::new((lanes::World::new(), 0));
}

fuzz_target!(|bytes: &[u8]| {
    WORLD.with_borrow_mut(|(world, played)| {
        if *played == SCRIPTS {
            (*world, *played) = (lanes::World::new(), 0);
        }
        *played += 1;
        world.play(bytes);
    });
});
