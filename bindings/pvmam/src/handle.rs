//! The pointers that a program gets for interfaces and endpoints. They are numbers that are never used again, and no pointer of the
//! program's is ever followed: a stale one, or one that was made up, is found in no table.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::code::{Code, Failure};

/// An interface or an endpoint, as the program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle(usize);

/// What a handle stands for: its lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Interface = 1,
    Endpoint = 2,
}

const STEP: usize = 16;

/// The next number.
static NEXT: AtomicUsize = AtomicUsize::new(STEP);

/// The interfaces of all threads.
static OPEN: Mutex<BTreeSet<Handle>> = Mutex::new(BTreeSet::new());

impl Handle {
    pub(crate) fn new(kind: Kind) -> Handle {
        Handle(NEXT.fetch_add(STEP, Ordering::Relaxed) + kind as usize)
    }

    /// What the program passed as such.
    pub(crate) fn of(pointer: *const c_void) -> Handle {
        Handle(pointer.addr())
    }

    pub(crate) fn pointer(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }

    pub(crate) fn is(self, kind: Kind) -> bool {
        self.0 % STEP == kind as usize && (STEP..NEXT.load(Ordering::Relaxed)).contains(&self.0)
    }

    fn is_null(self) -> bool {
        self.0 == 0
    }
}

/// The interface is open from now on.
pub(crate) fn note_open(interface: Handle) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).insert(interface);
}

/// The interface is closed.
pub(crate) fn note_closed(interface: Handle) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&interface);
}

/// How many interfaces are open, in all threads.
pub(crate) fn count_open() -> usize {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// Why this is no interface of the calling thread.
#[cold]
pub(crate) fn no_interface(handle: Handle) -> Failure {
    if handle.is_null() {
        return Failure::argument(
            "`interface` is NULL: pass what am_init has returned, and check that this is not NULL",
        );
    }
    if handle.is(Kind::Endpoint) {
        return Failure::argument("`interface` is an endpoint of am_allocate_task: pass what am_init has returned");
    }
    if !handle.is(Kind::Interface) {
        return Failure::argument("`interface` is no interface: pass what am_init has returned");
    }
    let is_open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).contains(&handle);
    Failure::plain(if is_open { Code::Thread } else { Code::Shutdown })
}

/// Why this is no endpoint of an interface.
#[cold]
pub(crate) fn no_endpoint(handle: Handle) -> Failure {
    if handle.is_null() {
        return Failure::argument("`endpoint` is NULL: pass what am_allocate_task has returned");
    }
    if handle.is(Kind::Interface) {
        return Failure::argument("`endpoint` is an interface of am_init: pass what am_allocate_task has returned");
    }
    if !handle.is(Kind::Endpoint) {
        return Failure::argument("`endpoint` is no endpoint: pass what am_allocate_task has returned");
    }
    Failure::new(Code::Endpoint, "this endpoint was deallocated, or it is one of another interface")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_what_it_was_made_for() {
        let (interface, endpoint) = (Handle::new(Kind::Interface), Handle::new(Kind::Endpoint));
        assert!(interface.is(Kind::Interface) && !interface.is(Kind::Endpoint) && endpoint.is(Kind::Endpoint));
        assert_eq!(Handle::of(interface.pointer()), interface);
        assert_eq!(no_interface(interface).code, Code::Shutdown);
        note_open(interface);
        assert_eq!(no_interface(interface).code, Code::Thread);
        note_closed(interface);
        assert_eq!((no_interface(endpoint).code, no_endpoint(interface).code), (Code::Argument, Code::Argument));
        assert_eq!(no_endpoint(endpoint).code, Code::Endpoint);
    }

    #[test]
    fn what_was_never_made_is_nothing() {
        for number in [0, 1, 7, STEP, usize::MAX, usize::MAX / STEP * STEP + 1] {
            let handle = Handle(number);
            assert!(!handle.is(Kind::Interface) && !handle.is(Kind::Endpoint), "{number}");
            assert_eq!((no_interface(handle).code, no_endpoint(handle).code), (Code::Argument, Code::Argument));
        }
    }
}
