//! A pool whose memory tells when it is let go.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use am_ring::{Layout, Pool};

struct Memory {
    base: NonNull<[u8]>,
    _alive: Arc<()>,
}

// SAFETY: it is nothing but the right to free the memory.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `watched` leaked this box.
        drop(unsafe { Box::from_raw(self.base.as_ptr()) });
    }
}

/// A pool, and what can no longer be upgraded once its memory is freed.
pub(crate) fn watched(layout: Layout) -> (Pool, Weak<()>) {
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    let base = NonNull::from(Box::leak(vec![0u8; layout.bytes()].into_boxed_slice()));
    let keep = Box::new(Memory { base, _alive: alive });
    // SAFETY: the memory is as long as the layout, and nobody's but the pool's until `keep` frees it.
    (unsafe { Pool::over(base.cast(), layout, keep) }.unwrap(), weak)
}

/// Whether the memory is freed.
pub(crate) fn is_gone(memory: &Weak<()>) -> bool {
    memory.strong_count() == 0
}
