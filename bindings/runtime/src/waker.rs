//! A waker: another thread uses it to end the sleep of a thread that waits on the node's descriptor.
//!
//! A program may close every descriptor, as a daemon does when it goes into the background. Its own files may then get the numbers. So each
//! access first checks that the descriptor is still the library's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use am_api::own::{Own, high};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{read, write};

/// Ends the sleep of one thread.
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

    /// Wake the thread. If the program has closed the descriptor, the close has woken it.
    pub fn wake(&self) {
        // Fails only if the counter is full, and then the thread is awake.
        _ = self.0.get().map(|event| write(event, &1_u64.to_ne_bytes()));
    }

    /// The thread is awake.
    pub fn clear(&self) {
        _ = self.0.get().map(|event| read(event, &mut [0; 8]));
    }
}

/// The descriptor on which the thread sleeps. Readable once the waker was used.
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
