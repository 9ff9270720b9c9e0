//! Ends the sleep of the thread that works meanwhile.
//!
//! A program may close every descriptor, as one that goes into the background does. Then its own files get the numbers. So nothing is
//! written or read before a look whose the number is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use am_api::own::{Own, high};
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Waker {
    /// The thread sleeps on this end.
    reader: Own,
    writer: Own,
}

impl Waker {
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn new() -> io::Result<Waker> {
        let (reader, writer) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        Ok(Waker { reader: high(reader).into(), writer: high(writer).into() })
    }

    /// Whether the program has closed it, and perhaps the library's other descriptors with it.
    pub(crate) fn is_closed(&self) -> bool {
        self.reader.is_lost() || self.writer.is_lost()
    }

    /// Wake the thread. Where the program has closed the pipe, that has woken it.
    pub(crate) fn wake(&self) {
        // It fails only while the pipe is full, and the thread awake.
        _ = self.writer.get().map(|writer| write(writer, &[1]));
    }

    /// The thread is awake, and has found the waker open.
    pub(crate) fn clear(&self) {
        _ = self.reader.get().map(|reader| read(reader, &mut [0; 512]));
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

    use nix::errno::Errno;
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
        let (mut waker, (reader, writer)) = (Waker::new().unwrap(), pipe2(OFlag::O_NONBLOCK).unwrap());
        dup2(writer, &mut waker.writer).unwrap();
        assert!(waker.is_closed());
        waker.wake();
        assert_eq!(read(reader, &mut [0]), Err(Errno::EAGAIN));
    }
}
