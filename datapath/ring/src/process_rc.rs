//! A counted, borrowed value of one process: `Rc<RefCell<T>>` that knows a forked child.
//!
//! ```text
//!              a page that the kernel clears in children │ memory that children copy
//!                                        … borrow flag  │ owner  counts  value …
//!                                                        ▲
//!                                                        a handle points here
//! ```
//!
//! Each use of the value looks at the flag anyway. In a child it is 0, which means neither *free* nor *borrowed*. So a fork is found by a
//! comparison that every use makes, and costs nothing until there is one.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::process::Owner;
use crate::wiped::WipedPage;

/// What becomes of a value in a forked child.
pub trait Disown {
    /// This process was forked from the value's owner. Become a value that has nothing in common with the parent's. It is called
    /// before the first use in the child.
    fn disown(&mut self);
}

/// The values of the flag. 0 is none: a child was forked.
const FREE: isize = 1;
const WRITTEN: isize = -1;

/// No two counts lie side by side, and none beside the flag. A compiler changes neighbours by one instruction on 16 bytes, and if each
/// was written just before, its read waits until both writes have left the processor's store buffer. For the flag and a count, which lie
/// on two pages, a message took 14 ns longer.
#[repr(C)]
struct Shared<T> {
    memory: ManuallyDrop<WipedPage>,
    strong: Cell<usize>,
    owner: UnsafeCell<Owner>,
    /// Weak handles, and one for all strong handles.
    weak: Cell<usize>,
    _apart: usize,
    /// How often the value was borrowed to be changed.
    writes: Cell<u64>,
    value: UnsafeCell<T>,
}

/// A handle on a value of this thread and process. The last one drops it.
pub struct ProcessRc<T> {
    at: NonNull<Shared<T>>,
    _owns: PhantomData<Shared<T>>,
}

/// A handle that does not keep its value.
pub struct ProcessWeak<T> {
    at: Option<NonNull<Shared<T>>>,
    _owns: PhantomData<Shared<T>>,
}

/// # Safety
/// `at` is a value's place, which is mapped as long as the result is used.
#[inline(always)]
unsafe fn flag_of<'a, T>(at: NonNull<Shared<T>>) -> &'a Cell<isize> {
    // SAFETY: the page before the place is mapped with it.
    unsafe { at.cast::<Cell<isize>>().sub(1).as_ref() }
}

impl<T> ProcessRc<T> {
    /// A value of the calling process.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(owner: Owner, value: T) -> io::Result<ProcessRc<T>> {
        const { assert!(align_of::<Shared<T>>() <= 4096, "it starts at a page") };
        let memory = WipedPage::new(size_of::<Shared<T>>())?;
        let at = memory.end().cast::<Shared<T>>();
        let (owner, memory) = (UnsafeCell::new(owner), ManuallyDrop::new(memory));
        let (strong, weak, writes) = (Cell::new(1), Cell::new(1), Cell::new(0));
        let shared = Shared { memory, strong, owner, weak, _apart: 0, writes, value: UnsafeCell::new(value) };
        // SAFETY: the memory is ours, large enough, and starts at a page.
        unsafe { at.write(shared) };
        // SAFETY: as above.
        unsafe { flag_of(at) }.set(FREE);
        Ok(ProcessRc { at, _owns: PhantomData })
    }

    #[inline(always)]
    fn shared(&self) -> &Shared<T> {
        // SAFETY: it lives as long as a handle on it does. Only `UnsafeCell`s in it change.
        unsafe { self.at.as_ref() }
    }

    #[inline(always)]
    fn flag(&self) -> &Cell<isize> {
        // SAFETY: mapped as long as a handle exists.
        unsafe { flag_of(self.at) }
    }

    /// Whether the calling process is the value's owner.
    pub fn is_here(&self) -> bool {
        // SAFETY: it changes in `find_fork` only, which makes no call that comes back here while it does.
        unsafe { &*self.shared().owner.get() }.is_here()
    }

    /// How often the value was borrowed to be changed. While this stays, the value does.
    #[inline]
    pub fn writes(&self) -> u64 {
        self.shared().writes.get()
    }

    /// Whether this is a handle on the same value.
    pub fn is_same(&self, other: &ProcessRc<T>) -> bool {
        self.at == other.at
    }

    /// A handle that does not keep the value.
    #[inline]
    pub fn downgrade(&self) -> ProcessWeak<T> {
        let weak = &self.shared().weak;
        weak.set(weak.get() + 1);
        ProcessWeak { at: Some(self.at), _owns: PhantomData }
    }

    /// The value, to be changed; `None` if it is borrowed, or another process's.
    #[inline]
    pub fn try_borrow_mut(&self) -> Option<RefMut<'_, T>> {
        (self.flag().get() == FREE).then(|| self.write())
    }

    #[inline(always)]
    fn write(&self) -> RefMut<'_, T> {
        self.flag().set(WRITTEN);
        let writes = &self.shared().writes;
        writes.set(writes.get().wrapping_add(1));
        RefMut { at: self.at, _of: PhantomData }
    }
}

impl<T: Disown> ProcessRc<T> {
    /// The value, to be changed.
    ///
    /// # Panics
    /// It is borrowed.
    #[inline]
    pub fn borrow_mut(&self) -> RefMut<'_, T> {
        if self.flag().get() != FREE {
            self.find_fork();
        }
        self.write()
    }

    /// The value, to be read.
    ///
    /// # Panics
    /// It is borrowed to be changed.
    #[inline]
    pub fn borrow(&self) -> Ref<'_, T> {
        let flag = self.flag();
        if flag.get() < FREE {
            self.find_fork();
        }
        flag.set(flag.get() + 1);
        Ref { at: self.at, _of: PhantomData }
    }

    /// The flag is not free. In a child, the value becomes the child's.
    #[cold]
    #[inline(never)]
    fn find_fork(&self) {
        assert!(!self.is_here(), "a value is used while it is borrowed");
        let Ok(owner) = Owner::new() else { unreachable!("its page is mapped since the parent's") };
        // SAFETY: no other reference to it exists, since this is its thread.
        let parents = unsafe { self.shared().owner.get().replace(owner) };
        drop(parents);
        self.write().disown();
        // A borrow from before the fork may have left another value.
        self.flag().set(FREE);
    }
}

impl<T> Clone for ProcessRc<T> {
    #[inline]
    fn clone(&self) -> Self {
        let strong = &self.shared().strong;
        strong.set(strong.get() + 1);
        ProcessRc { at: self.at, _owns: PhantomData }
    }
}

impl<T> Drop for ProcessRc<T> {
    #[inline]
    fn drop(&mut self) {
        let strong = &self.shared().strong;
        strong.set(strong.get() - 1);
        if strong.get() == 0 {
            self.drop_value();
        }
    }
}

impl<T> ProcessRc<T> {
    #[cold]
    #[inline(never)]
    fn drop_value(&mut self) {
        // SAFETY: the last strong handle goes, so nothing borrows the value, and no weak handle reaches it any more.
        unsafe { self.shared().value.get().drop_in_place() };
        // That of all strong handles.
        drop(ProcessWeak { at: Some(self.at), _owns: PhantomData });
    }
}

impl<T> ProcessWeak<T> {
    /// A handle on nothing.
    pub const fn new() -> Self {
        ProcessWeak { at: None, _owns: PhantomData }
    }

    /// The value, if it lives.
    #[inline]
    pub fn upgrade(&self) -> Option<ProcessRc<T>> {
        let at = self.at?;
        // SAFETY: the counts live as long as a weak handle does.
        let strong = unsafe { &(*at.as_ptr()).strong };
        if strong.get() == 0 {
            return None;
        }
        strong.set(strong.get() + 1);
        Some(ProcessRc { at, _owns: PhantomData })
    }
}

impl<T> Default for ProcessWeak<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for ProcessWeak<T> {
    #[inline]
    fn clone(&self) -> Self {
        if let Some(at) = self.at {
            // SAFETY: the counts live as long as a weak handle does.
            let weak = unsafe { &(*at.as_ptr()).weak };
            weak.set(weak.get() + 1);
        }
        ProcessWeak { at: self.at, _owns: PhantomData }
    }
}

impl<T> Drop for ProcessWeak<T> {
    #[inline]
    fn drop(&mut self) {
        let Some(at) = self.at else { return };
        // SAFETY: the counts live as long as a weak handle does.
        let weak = unsafe { &(*at.as_ptr()).weak };
        weak.set(weak.get() - 1);
        if weak.get() == 0 {
            // SAFETY: the last handle goes, and the value was dropped with the last strong one.
            unsafe { free(at) };
        }
    }
}

/// # Safety
/// The last handle goes, and the value was dropped.
#[cold]
#[inline(never)]
unsafe fn free<T>(at: NonNull<Shared<T>>) {
    // SAFETY: the caller's. The memory is moved out before it is unmapped.
    unsafe {
        (*at.as_ptr()).owner.get().drop_in_place();
        drop(ManuallyDrop::into_inner((&raw const (*at.as_ptr()).memory).read()));
    }
}

/// A value that is borrowed to be read.
pub struct Ref<'a, T> {
    at: NonNull<Shared<T>>,
    _of: PhantomData<&'a ProcessRc<T>>,
}

/// A value that is borrowed to be changed.
pub struct RefMut<'a, T> {
    at: NonNull<Shared<T>>,
    _of: PhantomData<&'a ProcessRc<T>>,
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the flag says that it is read, so nothing changes it.
        unsafe { &*(*self.at.as_ptr()).value.get() }
    }
}

impl<T> Deref for RefMut<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the flag says that this is the only borrow.
        unsafe { &*(*self.at.as_ptr()).value.get() }
    }
}

impl<T> DerefMut for RefMut<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *(*self.at.as_ptr()).value.get() }
    }
}

impl<T> Drop for Ref<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the borrowed handle keeps it.
        let flag = unsafe { flag_of(self.at) };
        flag.set(flag.get() - 1);
    }
}

impl<T> Drop for RefMut<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the borrowed handle keeps it.
        let flag = unsafe { flag_of(self.at) };
        // Not `FREE`: a child that was forked while this was borrowed is found by its next use.
        flag.set(flag.get() + (FREE - WRITTEN));
    }
}

impl<T> fmt::Debug for ProcessRc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessRc").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ProcessWeak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessWeak").finish_non_exhaustive()
    }
}
