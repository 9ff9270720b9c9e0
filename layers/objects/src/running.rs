//! The objects whose operations run on a thread. An operation that called one of its own object, or waited for a call, would wait for itself.

use std::cell::RefCell;

thread_local! {
    /// Where the objects' replicas are in memory, the innermost one last.
    static RUNNING: RefCell<Vec<usize>> = const { RefCell::new(vec![]) };
}

/// An operation runs, until this is dropped.
pub(crate) struct Running(());

impl Running {
    /// An operation of this replica.
    #[inline]
    pub(crate) fn of<T>(replica: &T) -> Running {
        RUNNING.with_borrow_mut(|running| running.push(address(replica)));
        Running(())
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        // While the thread ends there is none.
        _ = RUNNING.try_with(|running| running.borrow_mut().pop());
    }
}

/// Whether this thread runs an operation of this replica.
#[inline]
pub(crate) fn runs<T>(replica: &T) -> bool {
    RUNNING.with_borrow(|running| running.contains(&address(replica)))
}

/// Whether this thread runs an operation.
pub(crate) fn any() -> bool {
    RUNNING.with_borrow(|running| !running.is_empty())
}

fn address<T>(replica: &T) -> usize {
    std::ptr::from_ref(replica).addr()
}
