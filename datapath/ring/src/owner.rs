//! The identity of the calling thread. It is needed for every frame that comes home, so it is one load, and never given
//! to a second thread.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A thread, for as long as the process lives.
pub(crate) type Token = u64;

/// No thread at all.
pub(crate) const NOBODY: Token = 0;

// Constant and without destructor: readable even while the thread ends.
#[cfg(not(loom))]
thread_local!(static TOKEN: Cell<Token> = const { Cell::new(NOBODY) });
#[cfg(loom)]
loom::thread_local!(static TOKEN: Cell<Token> = Cell::new(NOBODY));

/// The token of the calling thread.
#[inline]
pub(crate) fn this_thread() -> Token {
    TOKEN.with(|token| match token.get() {
        NOBODY => introduce(token),
        known => known,
    })
}

#[cold]
fn introduce(token: &Cell<Token>) -> Token {
    // Not loom's: a number that is unique is no part of what is modelled.
    static NEXT: AtomicU64 = AtomicU64::new(NOBODY + 1);
    token.set(NEXT.fetch_add(1, Relaxed));
    token.get()
}
