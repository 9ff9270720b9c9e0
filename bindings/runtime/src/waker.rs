//! Ends the sleep of a thread that waits for the node's descriptor and for another thread.
//!
//! A program may close every descriptor, as one that goes into the background does. Then its own files get the numbers. So nothing is
//! written or read before a look whose the number is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use am_api::own::{Own, high};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{read, write};

/// See the module's page.
#[derive(Debug)]
pub struct Waker(Own);

impl Waker {
    /// A waker that is not used yet.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Waker(high(OwnedFd::from(event)).into()))
    }

    /// Whether the program has closed it, and perhaps the library's other descriptors with it.
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// Wake the thread. Where the program has closed the descriptor, that has woken it.
    pub fn wake(&self) {
        // It fails only while the counter is full, and the thread awake.
        _ = self.0.get().map(|event| write(event, &1_u64.to_ne_bytes()));
    }

    /// The thread is awake.
    pub fn clear(&self) {
        _ = self.0.get().map(|event| read(event, &mut [0; 8]));
    }
}

/// Readable once it was used. The thread sleeps on it.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use nix::errno::Errno;
    use nix::fcntl::OFlag;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::unistd::{dup2, pipe2};

    fn is_awake(waker: &Waker) -> bool {
        poll(&mut [PollFd::new(waker.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() > 0
    }

    #[test]
    fn it_wakes_and_sleeps_again() {
        let waker = Waker::new().unwrap();
        assert!(!is_awake(&waker) && !waker.is_lost());
        (0..100_000).for_each(|_| waker.wake());
        assert!(is_awake(&waker));
        waker.clear();
        assert!(!is_awake(&waker));
    }

    #[test]
    fn another_file_with_its_number_gets_no_byte() {
        let (mut waker, (reader, writer)) = (Waker::new().unwrap(), pipe2(OFlag::O_NONBLOCK).unwrap());
        dup2(writer, &mut waker.0).unwrap();
        assert!(waker.is_lost());
        waker.wake();
        assert_eq!(read(reader, &mut [0]), Err(Errno::EAGAIN));
    }
}
