//! How often this process uses an object, for objects whose placement follows their use.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use crate::placement::REPORT;

/// Reads and writes of this process since its last report.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    are_counted: AtomicBool,
    reads: AtomicU32,
    writes: AtomicU32,
}

impl Uses {
    pub(crate) fn count(&self, are_counted: bool) {
        self.are_counted.store(are_counted, Relaxed);
    }

    /// Returns whether a report is due.
    #[inline]
    pub(crate) fn read(&self) -> bool {
        self.are_counted.load(Relaxed) && is_due(&self.reads)
    }

    /// Returns whether a report is due.
    #[inline]
    pub(crate) fn write(&self) -> bool {
        self.are_counted.load(Relaxed) && is_due(&self.writes)
    }

    /// The reads and writes of a report.
    pub(crate) fn take(&self) -> (u32, u32) {
        (self.reads.swap(0, Relaxed), self.writes.swap(0, Relaxed))
    }
}

#[cold]
fn is_due(count: &AtomicU32) -> bool {
    (count.fetch_add(1, Relaxed) + 1).is_multiple_of(REPORT)
}
