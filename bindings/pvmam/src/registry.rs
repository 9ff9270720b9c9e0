//! The interfaces of the calling thread.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::rc::Rc;

use am_api::is_forked_child;

use crate::code::{Code, Failure};
use crate::handle::{self, Handle};
use crate::interface::Interface;

/// They end with the thread. The copies in a forked child are leaked, because their drop would notify the peers that the parent has left.
/// So is an interface whose handler has ended the program: the call that ran it still has it.
struct Interfaces(RefCell<ManuallyDrop<Vec<Rc<Interface>>>>);

impl Drop for Interfaces {
    fn drop(&mut self) {
        if !is_forked_child()
            && let Ok(mut all) = self.0.try_borrow_mut()
        {
            all.clear();
        }
    }
}

thread_local! {
    static INTERFACES: Interfaces = const { Interfaces(RefCell::new(ManuallyDrop::new(vec![]))) };
    /// The number of idle calls.
    static IDLE: Cell<u32> = const { Cell::new(0) };
}

/// # Errors
/// This process was forked from one with an interface. Frames of both would break the parent's connections.
#[inline]
pub(crate) fn check_not_child() -> Result<(), Failure> {
    if is_forked_child() { Err(Failure::plain(Code::Forked)) } else { Ok(()) }
}

/// Run `work` with the interfaces of the thread. `None` if the thread is ending, and they are gone.
#[inline]
fn with_all<T>(work: impl FnOnce(&mut Vec<Rc<Interface>>) -> T) -> Option<T> {
    INTERFACES.try_with(|all| work(&mut all.0.borrow_mut())).ok()
}

/// The interface of this handle.
///
/// # Errors
/// This thread has none, or the process is a forked child.
#[inline]
pub(crate) fn find(handle: Handle) -> Result<Rc<Interface>, Failure> {
    check_not_child()?;
    let found = with_all(|all| all.iter().find(|interface| interface.shared.handle == handle).cloned());
    found.flatten().ok_or_else(|| handle::no_interface(handle))
}

/// The interface of this handle, or of the interface that has this endpoint.
///
/// # Errors
/// This thread has none, or the process is a forked child.
pub(crate) fn find_either(handle: Handle) -> Result<Rc<Interface>, Failure> {
    check_not_child()?;
    let has = |interface: &Interface| interface.shared.tasks.borrow().check(handle).is_ok();
    let found = with_all(|all| all.iter().find(|interface| has(interface)).cloned());
    found.flatten().map_or_else(|| find(handle), Ok)
}

/// An interface is open.
///
/// # Errors
/// The thread is ending.
pub(crate) fn add(interface: Interface) -> Result<Handle, Failure> {
    let handle = interface.shared.handle;
    let added = with_all(|all| all.push(Rc::new(interface)));
    added.map(|()| handle).ok_or_else(|| Failure::new(Code::Thread, "this thread is ending: open no interface on it"))
}

/// The interface is found no more.
pub(crate) fn remove(interface: &Interface) {
    let handle = interface.shared.handle;
    let removed = with_all(|all| {
        let at = all.iter().position(|interface| interface.shared.handle == handle);
        at.map(|at| all.swap_remove(at))
    });
    drop(removed);
}

/// The other interfaces of this thread.
pub(crate) fn others(than: &Interface) -> Vec<Rc<Interface>> {
    let handle = than.shared.handle;
    let others = |all: &mut Vec<Rc<Interface>>| {
        all.iter().filter(|interface| interface.shared.handle != handle).cloned().collect()
    };
    with_all(|all| if all.len() > 1 { others(all) } else { vec![] }).unwrap_or_default()
}

/// Check whether the program has closed descriptors of the library. If so, close the interface.
///
/// # Errors
/// The program has closed such a descriptor.
#[cold]
pub(crate) fn close_if_lost(interface: &Interface) -> Result<(), Failure> {
    if interface.is_lost() {
        remove(interface);
        return Err(Failure::plain(Code::Lost));
    }
    Ok(())
}

/// The number of idle calls of a thread between two checks of the descriptors.
const IDLE_CALLS: u32 = 256;

/// A call has found nothing to do: check the descriptors now and then.
///
/// # Errors
/// As for [`close_if_lost`].
#[inline]
pub(crate) fn note_idle(interface: &Interface) -> Result<(), Failure> {
    if IDLE.replace(IDLE.get().wrapping_add(1)).is_multiple_of(IDLE_CALLS) {
        close_if_lost(interface)?;
    }
    Ok(())
}
