//! A value of one process, and the copies of it in children.

use std::cell::Cell;
use std::rc::Rc;

use am_ring::{Disown, Owned, Owner, ProcessRc, ProcessWeak};

struct Value {
    number: u32,
    dropped: Rc<Cell<u32>>,
}

impl Disown for Value {
    fn disown(&mut self) {
        self.number = 0;
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
    }
}

fn value() -> (ProcessRc<Value>, Rc<Cell<u32>>) {
    let dropped = Rc::<Cell<u32>>::default();
    let value = Value { number: 7, dropped: dropped.clone() };
    (ProcessRc::new(Owner::new().unwrap(), value).unwrap(), dropped)
}

#[test]
fn the_last_handle_drops_the_value() {
    let (value, dropped) = value();
    let (other, weak) = (value.clone(), value.downgrade());
    assert!(value.is_same(&other) && weak.upgrade().is_some_and(|value| value.is_same(&other)));
    drop(value);
    assert_eq!((other.borrow().number, dropped.get()), (7, 0));
    let again = weak.clone();
    drop(other);
    assert_eq!((dropped.get(), weak.upgrade().is_none(), again.upgrade().is_none()), (1, true, true));
    assert!(ProcessWeak::<Value>::new().clone().upgrade().is_none());
}

#[test]
fn borrows_exclude_each_other() {
    let (value, _) = value();
    {
        let (one, other) = (value.borrow(), value.borrow());
        assert_eq!((one.number, other.number), (7, 7));
        assert!(value.try_borrow_mut().is_none());
    }
    value.borrow_mut().number = 8;
    let held = value.borrow_mut();
    assert!(value.try_borrow_mut().is_none());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| value.borrow().number)).is_err());
    drop(held);
    assert_eq!(value.borrow().number, 8);
}

#[test]
fn borrows_to_change_it_are_counted() {
    let (value, _) = value();
    let before = value.writes();
    assert_eq!((value.borrow().number, value.writes()), (7, before));
    value.borrow_mut().number = 8;
    drop(value.try_borrow_mut());
    assert_eq!(value.writes(), before + 2);
}

#[test]
fn an_owned_value_is_dropped_once() {
    let dropped = Rc::<Cell<u32>>::default();
    let owned = Owned::new(Owner::new().unwrap(), Value { number: 7, dropped: dropped.clone() });
    assert_eq!((owned.number, Owned::is_here(&owned)), (7, true));
    drop(owned);
    assert_eq!(dropped.get(), 1);
}

/// In a child the first use replaces the value, and its end is not the parent's.
#[cfg(not(miri))]
#[test]
fn a_child_has_a_value_of_its_own() {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    let (value, dropped) = value();
    let owned = Owned::new(Owner::new().unwrap(), Value { number: 7, dropped: dropped.clone() });
    for is_read in [false, true] {
        // SAFETY: the child compares numbers, and ends.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0))),
            ForkResult::Child => {
                let knows = am_ring::is_forked_child() && !value.is_here() && value.try_borrow_mut().is_none();
                let number = if is_read { value.borrow().number } else { value.borrow_mut().number };
                let has_own = value.is_here() && !am_ring::is_forked_child() && value.borrow().number == 0;
                drop(owned);
                let is_right = knows && has_own && number == 0 && dropped.get() == 0;
                std::process::exit(i32::from(!is_right));
            }
        }
    }
    assert_eq!((value.borrow().number, Owned::is_here(&owned)), (7, true));
    assert!(!am_ring::is_forked_child());
}
