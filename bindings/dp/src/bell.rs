//! Ends the sleep of the thread that works meanwhile.
//!
//! A program may close every descriptor, as one that goes into the background does. Then its own files get the numbers. So this is a
//! pipe, which has an identity that no other file has; an eventfd has none. Nothing is written or read before a look at it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::sys::stat::fstat;
use nix::unistd::{pipe2, read, write};

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Bell {
    sleeper: OwnedFd,
    ringer: OwnedFd,
    /// Both ends, as the kernel numbers them.
    pipe: (u64, u64),
}

fn number(end: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let status = fstat(end)?;
    Ok((status.st_dev, status.st_ino))
}

impl Bell {
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn new() -> io::Result<Bell> {
        let (sleeper, ringer) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        let pipe = number(sleeper.as_fd())?;
        Ok(Bell { sleeper, ringer, pipe })
    }

    fn has(&self, end: &OwnedFd) -> bool {
        number(end.as_fd()).is_ok_and(|pipe| pipe == self.pipe)
    }

    /// Whether the program has left the library its descriptors.
    pub(crate) fn is_ours(&self) -> bool {
        self.has(&self.sleeper) && self.has(&self.ringer)
    }

    /// Wake the thread. Where the program has closed the bell, that has woken it.
    pub(crate) fn ring(&self) {
        if self.has(&self.ringer) {
            // It fails only while the thread is awake, and the pipe full.
            _ = write(&self.ringer, &[1]);
        }
    }

    /// The thread is awake.
    pub(crate) fn clear(&self) {
        if self.has(&self.sleeper) {
            _ = read(&self.sleeper, &mut [0; 512]);
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sleeper.as_fd()
    }
}
