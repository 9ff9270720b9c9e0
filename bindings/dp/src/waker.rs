//! Ends the sleep of the thread that works meanwhile.
//!
//! A program may close every descriptor, as one that goes into the background does. Then its own files get the numbers. So the waker is
//! a pipe: the kernel numbers each pipe, and all eventfds alike. Nothing is written or read before a look at that number.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::sys::stat::fstat;
use nix::unistd::{pipe2, read, write};

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Waker {
    /// The thread sleeps on this end.
    reader: OwnedFd,
    writer: OwnedFd,
    /// Both ends, as the kernel numbers them.
    pipe: (u64, u64),
}

fn number(end: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let status = fstat(end)?;
    Ok((status.st_dev, status.st_ino))
}

impl Waker {
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn new() -> io::Result<Waker> {
        let (reader, writer) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        let pipe = number(reader.as_fd())?;
        Ok(Waker { reader, writer, pipe })
    }

    fn is_end(&self, end: &OwnedFd) -> bool {
        number(end.as_fd()).is_ok_and(|pipe| pipe == self.pipe)
    }

    /// Whether the program has closed it, and the library's other descriptors with it.
    pub(crate) fn is_closed(&self) -> bool {
        !(self.is_end(&self.reader) && self.is_end(&self.writer))
    }

    /// Wake the thread. Where the program has closed the pipe, that has woken it.
    pub(crate) fn wake(&self) {
        if self.is_end(&self.writer) {
            // It fails only while the pipe is full, and the thread awake.
            _ = write(&self.writer, &[1]);
        }
    }

    /// The thread is awake, and has found the waker open.
    pub(crate) fn clear(&self) {
        _ = read(&self.reader, &mut [0; 512]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::unistd::dup2;

    fn is_awake(waker: &Waker) -> bool {
        poll(&mut [PollFd::new(waker.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() > 0
    }

    #[test]
    fn it_wakes_and_sleeps_again() {
        let waker = Waker::new().unwrap();
        assert!(!is_awake(&waker) && !waker.is_closed());
        (0..100_000).for_each(|_| waker.wake());
        assert!(is_awake(&waker));
        (0..1000).for_each(|_| waker.clear());
        assert!(!is_awake(&waker));
    }

    #[test]
    fn another_file_with_its_number_gets_no_byte() {
        let (mut waker, other) = (Waker::new().unwrap(), Waker::new().unwrap());
        dup2(&other.writer, &mut waker.writer).unwrap();
        assert!(waker.is_closed());
        waker.wake();
        assert!(!is_awake(&other));
    }
}
