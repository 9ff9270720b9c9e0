//! The lock of the process. Its first thread takes it without a locked operation, because the calls of most programs come from one thread.
//!
//! ```text
//!   the first thread that locks it is its favourite
//!   favourite     depth = 1 │ compiler fence │ revoked?                  no: it has the lock; yes: as another thread
//!   another       mutex │ revoked = true │ membarrier │ until depth is 0   it has the lock
//! ```
//!
//! The favourite writes `depth` before it reads `revoked`, and another thread writes `revoked` before it reads `depth`. In between, `membarrier`
//! makes each running thread of the process pass a full barrier. So one of both sees what the other has written (Dekker's algorithm). This
//! happens once: from then on all threads take the mutex. They do from the beginning where the kernel has no `membarrier`.

use std::marker::PhantomData;
use std::ops::Deref;
use std::process;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, compiler_fence};
use std::thread;
use std::time::Duration;

use nix::libc::{SYS_membarrier, c_int, syscall};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};

/// Between two looks whether the favourite has left.
const PAUSE: Duration = Duration::from_micros(50);

/// As in `linux/membarrier.h`.
const PRIVATE_EXPEDITED: c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

/// A lock that the same thread may take again.
pub(crate) struct Lock<T> {
    /// The thread that takes it without the mutex: 0 before the first one.
    favourite: AtomicUsize,
    /// How many guards the favourite has without the mutex. Only the favourite writes it.
    depth: AtomicUsize,
    /// The favourite takes the mutex, too.
    is_revoked: AtomicBool,
    mutex: ReentrantMutex<()>,
    value: T,
}

// SAFETY: one thread at a time has guards, and through them the value: see above.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The lock is this thread's until the guard is dropped.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// `None`: the thread is the favourite.
    mutex: Option<ReentrantMutexGuard<'a, ()>>,
    /// It stays on its thread.
    _stays: PhantomData<*const ()>,
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock {
            favourite: AtomicUsize::new(0),
            depth: AtomicUsize::new(0),
            is_revoked: AtomicBool::new(false),
            mutex: ReentrantMutex::new(()),
            value,
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.lock_as_favourite().unwrap_or_else(|| self.lock_mutex())
    }

    /// `None` if another thread has it.
    #[cold]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.lock_as_favourite().or_else(|| {
            let mutex = self.mutex.try_lock()?;
            self.revoke();
            (self.depth.load(Acquire) == 0).then(|| self.guard(Some(mutex)))
        })
    }

    #[inline]
    fn lock_as_favourite(&self) -> Option<Guard<'_, T>> {
        if self.favourite.load(Relaxed) != this_thread() {
            return None;
        }
        // `Acquire`: a thread that has ended may have had the same id.
        let depth = self.depth.load(Acquire);
        self.depth.store(depth + 1, Relaxed);
        compiler_fence(SeqCst);
        if depth == 0 && self.is_revoked.load(Relaxed) {
            self.depth.store(0, Release);
            return None;
        }
        Some(self.guard(None))
    }

    #[cold]
    fn lock_mutex(&self) -> Guard<'_, T> {
        let mutex = self.mutex.lock();
        self.revoke();
        while self.depth.load(Acquire) > 0 {
            thread::sleep(PAUSE);
        }
        self.guard(Some(mutex))
    }

    /// This thread has the mutex. It becomes the favourite if there was none. Otherwise there is none any more.
    fn revoke(&self) {
        if self.is_revoked.load(Relaxed) {
            return;
        }
        if self.favourite.load(Relaxed) == 0 && membarrier(REGISTER_PRIVATE_EXPEDITED) {
            return self.favourite.store(this_thread(), Relaxed);
        }
        self.is_revoked.store(true, SeqCst);
        if self.favourite.load(Relaxed) != 0 && !barrier() {
            eprintln!(
                "libam2: the kernel refuses `membarrier`, which it allowed before: a filter of system calls has to allow it. \
                 The program ends."
            );
            process::abort();
        }
    }

    #[inline]
    fn guard<'a>(&'a self, mutex: Option<ReentrantMutexGuard<'a, ()>>) -> Guard<'a, T> {
        Guard { lock: self, mutex, _stays: PhantomData }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.lock.value
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.mutex.is_none() {
            self.lock.depth.store(self.lock.depth.load(Relaxed) - 1, Release);
        }
    }
}

/// A number that no other living thread has.
#[inline]
fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| ptr::from_ref(place).addr())
}

/// A full barrier in every running thread of the process.
fn barrier() -> bool {
    // A process that was forked may have to register again.
    membarrier(PRIVATE_EXPEDITED) || (membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED))
}

fn membarrier(command: c_int) -> bool {
    // SAFETY: these commands take neither flags nor memory.
    unsafe { syscall(SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hint;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn the_first_thread_takes_no_mutex() {
        let lock = Lock::new(Cell::new(0));
        drop(lock.lock());
        let (outer, inner) = (lock.lock(), lock.try_lock().unwrap());
        assert!(outer.mutex.is_none() && inner.mutex.is_none() && !lock.mutex.is_locked());
        drop(outer);
        assert_eq!(lock.depth.load(Relaxed), 1);
        drop(inner);
        thread::scope(|scope| _ = scope.spawn(|| assert!(lock.lock().mutex.is_some())));
        assert!(lock.lock().mutex.is_some() && lock.try_lock().is_some());
    }

    #[test]
    fn another_thread_waits_for_the_first() {
        let (lock, begins) = (Lock::new(Cell::new(0)), Barrier::new(2));
        drop(lock.lock());
        let guard = lock.lock();
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let is_taken = lock.try_lock().is_none();
                begins.wait();
                (is_taken, lock.lock().replace(2))
            });
            begins.wait();
            thread::sleep(100 * PAUSE);
            // It waits by now, and the first thread takes the lock again.
            assert!(lock.lock().mutex.is_none() && !other.is_finished());
            assert_eq!(guard.replace(1), 0);
            drop(guard);
            assert_eq!(other.join().unwrap(), (true, 1));
        });
        assert_eq!(lock.lock().get(), 2);
    }

    /// The moment at which a second thread comes, many times: what one of them adds while the other has the lock would be lost.
    #[test]
    fn one_thread_at_a_time_has_it() {
        const ROUNDS: usize = 5000;
        let locks: Vec<Lock<Cell<u64>>> = (0..ROUNDS).map(|_| Lock::new(Cell::new(0))).collect();
        let begins = Barrier::new(2);
        let add = |lock: &Lock<Cell<u64>>, spins: u32| {
            let value = lock.lock();
            let before = value.get();
            (0..spins).for_each(|_| hint::spin_loop());
            value.set(before + 1);
            value.mutex.is_some()
        };
        let added: u64 = thread::scope(|scope| {
            let first = scope.spawn(|| {
                let until_revoked = |lock| {
                    add(lock, 0);
                    begins.wait();
                    2 + (0..).take_while(|_| !add(lock, 0)).count() as u64
                };
                locks.iter().map(until_revoked).sum()
            });
            for lock in &locks {
                begins.wait();
                add(lock, 100);
            }
            first.join().unwrap()
        });
        assert_eq!(locks.iter().map(|lock| lock.lock().get()).sum::<u64>(), added + ROUNDS as u64);
    }
}
