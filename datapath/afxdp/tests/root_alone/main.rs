//! Tests that look at all links of this process, or at what another process inherits. Needs root.
#![allow(unsafe_code)]

#[path = "../pair/mod.rs"]
mod pair;

mod forgotten;
mod process;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: a child that another thread starts has a copy of every
/// descriptor until it runs its own program, sockets that we close among them.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
