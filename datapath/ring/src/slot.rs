//! The state of one frame in the pool: its number of handles, and its neighbour in a list of free frames.

use crate::sync::{AtomicU32, Ordering::*, Witness};

/// Eight bytes per frame, kept apart from the frame's own memory, which belongs
/// to the NIC half of the time.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Handles on the frame, raw ones included; not looked at while it is free.
    handles: AtomicU32,
    /// The next in the list, while the frame is free. It is written before the frame is published in a list, and read by the
    /// thread that takes the frame from there. The list's own atomics order the two.
    pub(crate) next: AtomicU32,
    /// Stands for the frame's bytes in the model checker.
    pub(crate) witness: Witness,
}

/// A limit that only leaked handles reach.
const TOO_MANY: u32 = u32::MAX / 2;

impl Slot {
    pub(crate) fn new() -> Slot {
        Slot { handles: AtomicU32::new(0), next: AtomicU32::new(0), witness: Witness::default() }
    }

    /// The frame leaves its list with one handle. Only for the thread that took it from the list.
    #[inline]
    pub(crate) fn first_handle(&self) {
        self.handles.store(1, Relaxed);
    }

    /// Whether the calling handle is the only one. If so, whatever others did
    /// with the frame has happened before.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        // Acquire: pairs with the decrement in `drop_handle` by the last other
        // handle, so that its reads come before our writes (as in Arc::get_mut).
        self.handles.load(Acquire) == 1
    }

    /// Add a handle. The caller holds one, and no second thread uses that
    /// very handle now (frames are not `Sync`).
    #[inline]
    pub(crate) fn add_handle(&self) {
        if self.is_unique() {
            // Nobody else can count up or down, so this needs no
            // read-modify-write. The store ends the release sequence of earlier
            // decrements; `is_unique` has acquired them, and the new handle
            // reaches other threads only through us.
            return self.handles.store(2, Relaxed);
        }
        // Relaxed: the frame is reachable through the handle that we have.
        if self.handles.fetch_add(1, Relaxed) > TOO_MANY {
            // As Arc does: a wrapped count would be a use after free.
            std::process::abort();
        }
    }

    /// One handle less; whether it was the last. Then the caller owns the frame
    /// and all that others did with it has happened before. If not, the frame,
    /// and the whole pool, may be gone when this returns.
    #[inline]
    pub(crate) fn drop_handle(&self) -> bool {
        // The common case: never shared, or no longer shared.
        self.is_unique()
            // Release: our reads come before the writes of the next unique handle.
            // Acquire: if we are last after all, all others' come before ours.
            || self.handles.fetch_sub(1, AcqRel) == 1
    }

    /// For assertions only.
    pub(crate) fn is_out(&self) -> bool {
        self.handles.load(Relaxed) != 0
    }

    /// The frame is free again. Only for the thread that dropped the last handle.
    #[inline]
    pub(crate) fn no_handle(&self) {
        self.handles.store(0, Relaxed);
    }
}
