//! Whether a thread sleeps, in one word, so that other threads wake it only then.

use crate::sync::{AtomicU32, Ordering::*};

/// The hand-over between a thread that sleeps when it has nothing to do, and threads that give it something to do. They need a
/// system call to wake it only if it sleeps; the flag says when.
///
/// ```text
///   another thread                        the owner
///
///   put work into a queue                 loop {
///   if flag.wake(WORK) {                      take: what for? then look into the queue
///       write to an eventfd                   work
///   }                                         if flag.try_sleep() { sleep on the eventfd }
///                                         }
/// ```
///
/// Every step is a read-modify-write of one word, so the steps of all threads have one order. If [`wake`](Self::wake) comes before
/// [`try_sleep`](Self::try_sleep), the owner does not sleep; if it comes after, it returns true, and the caller ends the sleep.
///
/// ```
/// use am_ring::WakeFlag;
///
/// const WORK: u32 = 1;
/// let flag = WakeFlag::default();
/// assert!(!flag.wake(WORK), "the owner does not sleep");
/// assert!(!flag.try_sleep(), "nor may it now");
/// assert_eq!(flag.take(), WORK);
/// assert!(flag.try_sleep());
/// assert!(flag.wake(WORK), "now somebody has to end the sleep");
/// assert!(!flag.wake(WORK), "once");
/// ```
#[derive(Debug)]
pub struct WakeFlag(AtomicU32);

/// The owner sleeps, or is about to. All other bits are reasons to wake it.
const ASLEEP: u32 = 1 << 31;

impl Default for WakeFlag {
    fn default() -> Self {
        WakeFlag(AtomicU32::new(0))
    }
}

impl WakeFlag {
    /// There is work for the owner, for this reason (a bit below the highest one). Returns whether the caller has to end its sleep.
    #[inline]
    pub fn wake(&self, reason: u32) -> bool {
        // Release: what we did before comes before the owner's `take`. Acquire: the end of the sleep comes after its begin.
        self.0.fetch_or(reason, AcqRel) == ASLEEP
    }

    /// For the owner, before it sleeps. False: there is work, so it must not sleep.
    #[inline]
    pub fn try_sleep(&self) -> bool {
        let seen = self.0.compare_exchange(0, ASLEEP, AcqRel, Acquire);
        matches!(seen, Ok(_) | Err(ASLEEP))
    }

    /// For the owner: it does not sleep. Returns the reasons of all calls of [`wake`](Self::wake) since the last `take`; what their
    /// callers did before has happened.
    #[inline]
    pub fn take(&self) -> u32 {
        self.take_ringing().0
    }

    /// The same, and whether one call of [`wake`](Self::wake) has returned true meanwhile: its caller ends a sleep, now or soon.
    #[inline]
    pub fn take_ringing(&self) -> (u32, bool) {
        let seen = if self.0.load(Relaxed) == 0 { 0 } else { self.0.swap(0, AcqRel) };
        (seen & !ASLEEP, seen > ASLEEP)
    }
}
