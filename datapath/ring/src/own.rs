//! Descriptors in a process whose program may close them by number.
//!
//! A program in C closes numbers: `closefrom(3)` before it goes into the background, `dup2` onto a number of its choice. A library's
//! descriptors go with them, and the kernel gives their numbers to the program's next files. Whatever the library closes, reads or
//! writes from then on is the program's.
//!
//! ```text
//!   Own::new(7) ─▶ its file is marked
//!   the program closes 7, and opens a file ─▶ 7 has no mark ─┬─▶ is_lost, get: a hang-up
//!                                                            └─▶ drop: forgotten, not closed
//! ```
//!
//! So a descriptor is known by its file, which has a mark: the number of a signal that the kernel would send if this file asked for
//! signals, which none of ours does. A mark belongs to what was opened. So the same path opened by the program has none, and of the
//! kernel's anonymous files (epoll, timers, BPF), which have one inode together, each has its own.
//!
//! A look at the mark is a system call, so it has no place on the way of a message. There [`high`] helps: a program's files get the
//! lowest numbers that are free, and a descriptor with a high number, once closed, stays closed. Its use fails with `EBADF`.

use std::fmt;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Numbers below this are known by [`is_own`].
const MAX_FD: usize = 1 << 16;

/// Which of this library's descriptors has a number, by the order in which they were made; 0 for none.
static OWNERS: [AtomicU32; MAX_FD] = [const { AtomicU32::new(0) }; MAX_FD];

/// No descriptor has had a higher number, except those that the table has no room for.
static HIGHEST: AtomicI32 = AtomicI32::new(0);

/// What [`losses`] returns.
static LOSSES: AtomicU32 = AtomicU32::new(0);

/// What [`replacements`] returns.
static REPLACEMENTS: AtomicU32 = AtomicU32::new(0);

/// How many descriptors of this library's refer to another file than at first. While this count stays, so does what each refers to.
#[inline]
pub fn replacements() -> u32 {
    REPLACEMENTS.load(Ordering::Acquire)
}

/// The bit of a serial number whose descriptor the program closes.
const LENT: u32 = 1 << 31;

/// Whether there is such a descriptor, and the program has no reason to close it.
fn is_kept(serial: u32) -> bool {
    serial != 0 && serial & LENT == 0
}

/// The highest signal. Nothing asks for it by a descriptor.
const MARK: libc::c_int = 64;

/// The kernel reads these numbers as words.
const F_SETSIG: libc::c_int = 10;
const F_GETSIG: libc::c_int = 11;

fn owner_of(number: RawFd) -> Option<&'static AtomicU32> {
    OWNERS.get(usize::try_from(number).ok()?)
}

/// Returns whether the kernel keeps the mark of this file.
fn mark(number: RawFd) -> bool {
    // SAFETY: it changes which signal the file would send, and it sends none.
    unsafe { libc::fcntl(number, F_SETSIG, MARK) == 0 && has_mark(number) }
}

fn has_mark(number: RawFd) -> bool {
    // SAFETY: this only asks.
    unsafe { libc::fcntl(number, F_GETSIG) == MARK }
}

/// Whether this number is a descriptor of this library's.
pub fn is_own(number: RawFd) -> bool {
    owner_of(number).is_some_and(|owner| owner.load(Ordering::Relaxed) != 0) && has_mark(number)
}

/// Whether it is, and can be kept from a program that closes all numbers.
pub fn is_spared(number: RawFd) -> bool {
    owner_of(number).is_some_and(|owner| is_kept(owner.load(Ordering::Relaxed))) && has_mark(number)
}

/// How many descriptors of this library's the program has closed so far, as far as they were in use. A node that was opened at a lower
/// count may have lost one.
#[cold]
pub fn losses() -> u32 {
    for number in 0..=HIGHEST.load(Ordering::Relaxed) {
        let Some(owner) = owner_of(number) else { continue };
        let serial = owner.load(Ordering::Relaxed);
        // Counted once. Without an owner it is lost for ever.
        if is_kept(serial)
            && !has_mark(number)
            && owner.compare_exchange(serial, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            LOSSES.fetch_add(1, Ordering::Relaxed);
        }
    }
    LOSSES.load(Ordering::Relaxed)
}

/// How many descriptors the process may have, and the least high number.
fn limits() -> (u64, RawFd) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: there is a place for the answer.
    _ = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    // Not higher: the kernel's table of descriptors is as long as the highest number.
    (limit.rlim_cur, (limit.rlim_cur.min(1024) / 4 * 3) as RawFd)
}

/// The same file under a number that the program's files do not get as long as lower ones are free. Where there is none it stays.
pub fn high<T: AsFd + FromRawFd>(low: T) -> T {
    // SAFETY: `low` is open, and a number that is not allowed is an error.
    let number = unsafe { libc::fcntl(low.as_fd().as_raw_fd(), libc::F_DUPFD_CLOEXEC, limits().1) };
    if number < 0 {
        return low;
    }
    // SAFETY: the kernel has just opened it for this, and what it refers to is of this kind.
    unsafe { T::from_raw_fd(number) }
}

/// Run what opens descriptors that cannot be moved: another library's. They get high numbers, because all lower ones are taken meanwhile,
/// for about a millisecond. Where the process may have too few descriptors for that they stay low.
pub fn above_low_numbers<T>(work: impl FnOnce() -> T) -> T {
    const ROOM: u64 = 64;
    let (most, least) = limits();
    let mut taken = vec![];
    if let Ok(first) = File::open("/dev/null")
        && most >= least as u64 + ROOM
    {
        // SAFETY: `first` is open, and each copy is owned here alone.
        let copy = || unsafe {
            let number = libc::fcntl(first.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0);
            (number >= 0).then(|| OwnedFd::from_raw_fd(number))
        };
        // The last one is high: it is closed at once.
        taken.extend(std::iter::from_fn(copy).take_while(|copy| copy.as_raw_fd() < least));
        taken.push(first.into());
    }
    let done = work();
    drop(taken);
    done
}

/// A descriptor that is closed when this is dropped, if it is still the one that it was. See the module's page.
pub struct Own<T: AsFd = OwnedFd> {
    file: ManuallyDrop<T>,
    /// Its place in the order of all; 0 for a file that the kernel does not mark, which is as an [`OwnedFd`] then.
    serial: u32,
}

impl<T: AsFd> Own<T> {
    /// Remember which file this is.
    pub fn new(file: T) -> Own<T> {
        Own::with_flag(file, 0)
    }

    /// The same for a descriptor that the program closes by its number when it has no more use for it: that is no loss.
    pub fn lent(file: T) -> Own<T> {
        Own::with_flag(file, LENT)
    }

    fn with_flag(file: T, flag: u32) -> Own<T> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = file.as_fd().as_raw_fd();
        let serial = if mark(number) { (NEXT.fetch_add(1, Ordering::Relaxed) % LENT).max(1) | flag } else { 0 };
        if let Some(owner) = owner_of(number) {
            // The program had closed the one that had the number.
            let is_loss = is_kept(owner.swap(serial, Ordering::Relaxed));
            LOSSES.fetch_add(is_loss.into(), Ordering::Relaxed);
            HIGHEST.fetch_max(number, Ordering::Relaxed);
        }
        Own { file: ManuallyDrop::new(file), serial }
    }

    /// Whether the program has closed this number, or another file has it now.
    pub fn is_lost(&self) -> bool {
        let number = self.as_raw_fd();
        // A later one of ours may have the number, too.
        let is_owner = owner_of(number).is_none_or(|owner| owner.load(Ordering::Relaxed) == self.serial);
        self.serial != 0 && !(is_owner && has_mark(number))
    }

    /// For a use that would read or write whatever has the number: `None` where it is lost.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        (!self.is_lost()).then_some(&*self.file)
    }

    /// The program closes it, or has done so.
    pub fn forget(self) {
        self.disown();
        std::mem::forget(self);
    }

    /// It is the caller's to close from now on.
    pub fn into_inner(self) -> T {
        self.disown();
        let mut own = ManuallyDrop::new(self);
        // SAFETY: taken once, since `own` is not dropped.
        unsafe { ManuallyDrop::take(&mut own.file) }
    }

    fn disown(&self) {
        if let Some(owner) = owner_of(self.as_raw_fd()) {
            // A later one of ours may have the number.
            _ = owner.compare_exchange(self.serial, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// From now on this number is a copy of another file. Returns false where the number is lost, or the kernel refuses.
    pub fn replace(&self, with: impl AsFd) -> bool {
        let (with, number) = (with.as_fd().as_raw_fd(), self.as_raw_fd());
        // Marked first: to another thread the number is lost while its file has no mark.
        let is_done = (self.serial == 0 || mark(with))
            && !self.is_lost()
            // SAFETY: both are open, and the second is ours to close.
            && unsafe { libc::dup3(with, number, libc::O_CLOEXEC) } == number;
        REPLACEMENTS.fetch_add(is_done.into(), Ordering::Release);
        is_done
    }
}

impl<T: AsFd> Drop for Own<T> {
    fn drop(&mut self) {
        let is_lost = self.is_lost();
        self.disown();
        if !is_lost {
            // SAFETY: nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

impl<T: AsFd> Deref for Own<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.file
    }
}

impl<T: AsFd> DerefMut for Own<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.file
    }
}

impl<T: AsFd> AsFd for Own<T> {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<T: AsFd> AsRawFd for Own<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T: AsFd> fmt::Debug for Own<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.as_raw_fd()).finish()
    }
}

impl<T: AsFd> From<T> for Own<T> {
    fn from(file: T) -> Own<T> {
        Own::new(file)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    use std::io::{Read, Write, pipe};
    use std::sync::Mutex;

    /// Held while descriptors are lost, as all count together.
    static ALONE: Mutex<()> = Mutex::new(());

    /// What the program does: close a number, and open something that gets it.
    fn take_number(number: RawFd, with: &impl AsFd) {
        // SAFETY: the number is of a value that knows that it is lost.
        assert_eq!(unsafe { libc::dup2(with.as_fd().as_raw_fd(), number) }, number);
    }

    fn close_number(number: RawFd) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }

    fn epoll() -> OwnedFd {
        // SAFETY: the kernel makes one, or says why not.
        let number = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(number >= 0);
        // SAFETY: it was just made.
        unsafe { OwnedFd::from_raw_fd(number) }
    }

    #[test]
    fn what_was_not_lost_is_closed() {
        let (mut reader, writer) = pipe().unwrap();
        let writer = Own::new(high(writer));
        assert!(!writer.is_lost() && writer.get().is_some() && is_own(writer.as_raw_fd()));
        let number = writer.as_raw_fd();
        drop(writer);
        assert!(!is_own(number));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "no writer is left");
    }

    #[test]
    fn another_file_with_its_number_is_neither_used_nor_closed() {
        let _alone = ALONE.lock();
        let files: [fn() -> OwnedFd; 3] =
            [|| pipe().unwrap().1.into(), epoll, || File::open("/dev/null").unwrap().into()];
        for mine in files {
            for theirs in files {
                let (own, theirs) = (Own::new(mine()), theirs());
                let number = own.as_raw_fd();
                let before = losses();
                take_number(number, &theirs);
                assert!(own.is_lost() && own.get().is_none() && !is_own(number));
                assert!(losses() > before && own.is_lost());
                assert!(!own.replace(&theirs));
                drop(own);
                // SAFETY: it was not closed, and is the program's.
                drop(unsafe { File::from_raw_fd(number) });
            }
        }
    }

    /// In a debug build the drop of a closed descriptor would end the process.
    #[test]
    fn a_closed_one_is_forgotten() {
        let _alone = ALONE.lock();
        let own = Own::new(epoll());
        close_number(own.as_raw_fd());
        assert!(own.is_lost() && own.get().is_none());
    }

    /// The number is ours again, and another value's.
    #[test]
    fn a_later_one_with_its_number_is_not_closed_by_the_first() {
        let _alone = ALONE.lock();
        let first = Own::new(epoll());
        let (number, before) = (first.as_raw_fd(), LOSSES.load(Ordering::Relaxed));
        take_number(number, &epoll());
        // SAFETY: the number is open, and only this value closes it.
        let second = Own::new(unsafe { OwnedFd::from_raw_fd(number) });
        assert!(first.is_lost() && !second.is_lost() && losses() > before);
        drop(first);
        assert!(!second.is_lost() && is_own(number));
    }

    #[test]
    fn the_close_of_a_lent_one_is_no_loss() {
        let _alone = ALONE.lock();
        let first = Own::lent(epoll());
        let (number, before) = (first.as_raw_fd(), losses());
        take_number(number, &epoll());
        assert!(losses() == before && first.is_lost());
        // SAFETY: the number is open, and only this value closes it.
        let second = Own::lent(unsafe { OwnedFd::from_raw_fd(number) });
        assert!(losses() == before && first.is_lost() && !second.is_lost());
    }

    #[test]
    fn what_the_program_may_close_is_not_spared() {
        let _alone = ALONE.lock();
        let (kept, lent) = (Own::new(epoll()), Own::lent(epoll()));
        assert_eq!([&kept, &lent].map(|own| is_spared(own.as_raw_fd())), [true, false]);
    }

    #[test]
    fn a_replaced_one_is_known_as_what_it_is_now() {
        let (reader, mut writer) = pipe().unwrap();
        let own = Own::new(File::open("/dev/null").map(OwnedFd::from).unwrap());
        assert!(own.replace(&reader) && !own.is_lost());
        drop(reader);
        writer.write_all(b"x").unwrap();
        let mut byte = [0];
        File::from(own.try_clone().unwrap()).read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn what_cannot_be_moved_is_opened_above_low_numbers() {
        let _alone = ALONE.lock();
        let low = epoll();
        let opened = above_low_numbers(epoll);
        assert!(opened.as_raw_fd() >= limits().1 && epoll().as_raw_fd() < low.as_raw_fd() + 64);
    }

    #[test]
    fn the_programs_files_get_lower_numbers() {
        let own = high(epoll());
        assert!(own.as_raw_fd() > epoll().as_raw_fd());
    }
}
