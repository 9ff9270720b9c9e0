//! The exit of the process.

use std::sync::OnceLock;

use am_api::is_forked_child;
use nix::libc::atexit;

/// What the library does at the exit.
static FINISH: OnceLock<fn()> = OnceLock::new();

/// Run this when the process exits. A library has one such function, and may call this again with it. A forked child inherits it, and does
/// not run it: the node is its parent's.
pub fn at_exit(finish: fn()) {
    FINISH.get_or_init(|| {
        // SAFETY: the function belongs to this library, which a program does not unload before it exits.
        unsafe { atexit(run) };
        finish
    });
}

extern "C" fn run() {
    if !is_forked_child() {
        FINISH.get().into_iter().for_each(|finish| finish());
    }
}
