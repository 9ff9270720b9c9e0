//! The data of a long request, which the node reads in the caller's memory until the peer has all of it.

use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::am::PROCESS;

/// What the node has. All its accesses are under the lock of the process.
#[derive(Debug)]
pub(crate) struct Lent {
    /// Null once the loan has ended.
    start: AtomicPtr<u8>,
    length: usize,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        let start = self.start.load(Relaxed);
        if start.is_null() {
            return &[];
        }
        // SAFETY: it is the memory that `Loan::of` got, and the `Loan` has not ended: its drop clears the address. The node uses the bytes
        // within a turn, and no turn ends it.
        unsafe { slice::from_raw_parts(start, self.length) }
    }
}

/// What the caller has, for as long as its memory may be read.
#[derive(Debug)]
pub(crate) struct Loan(Arc<Lent>);

impl Loan {
    /// # Safety
    /// The data outlives the loan, and stays as it is meanwhile.
    pub(crate) unsafe fn of(data: &[u8]) -> Loan {
        Loan(Arc::new(Lent { start: AtomicPtr::new(data.as_ptr().cast_mut()), length: data.len() }))
    }

    pub(crate) fn lent(&self) -> &Arc<Lent> {
        &self.0
    }

    /// Whether the node has no handle on it any more.
    pub(crate) fn is_over(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // Only a bug ends it while the node has it. Then the peer gets zeros.
        if !self.is_over() {
            let _process = PROCESS.lock();
            self.0.start.store(ptr::null_mut(), Relaxed);
        }
    }
}
