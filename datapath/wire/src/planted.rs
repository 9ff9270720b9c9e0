//! A mutant: a bug on purpose that a checker has to find. It exists only with the feature `planted`, which tests switch
//! on, and then only on a thread that asked for it.

extern crate std;

use core::cell::Cell;
use std::thread_local;

thread_local! {
    static IGNORES_LENGTHS: Cell<bool> = const { Cell::new(false) };
}

/// From now on a frame on this thread may have any length, whatever its header says.
pub fn ignore_lengths(ignored: bool) {
    IGNORES_LENGTHS.set(ignored);
}

pub(crate) fn ignores_lengths() -> bool {
    IGNORES_LENGTHS.get()
}
