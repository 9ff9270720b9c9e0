//! Wakes a sleeping member through its FIFO.
//!
//! Before a node sleeps, it sends `Command::BeforeSleep`. Then the member empties its FIFO, and sets its [`SleepWord`](am_ring::lane::SleepWord)
//! in the segment. The first sender that finds it set writes to the FIFO.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::sync::Arc;

use am_ring::own::{Own, high};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, mkfifoat, unlinkat};

/// The FIFO of this member. It is readable if a sender has woken the member since it was armed.
#[derive(Debug)]
pub(crate) struct Waker {
    fifo: Own<File>,
    wake: Arc<Own>,
    /// Whether the member may be asleep.
    pub(crate) is_armed: bool,
}

/// This many reads empty a FIFO of the default size, 64 KiB.
const MAX_READS: usize = 129;

impl Waker {
    /// Make the FIFO of this name.
    pub(crate) fn new(dir: &OwnedFd, name: &CStr, mode: u32) -> io::Result<Waker> {
        let made = match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => mkfifoat(dir, name, Mode::S_IRUSR | Mode::S_IWUSR).map(|()| true)?,
            // It is the FIFO of a killed process of another user, which cannot be removed. It serves as well as a new one.
            Err(Errno::EPERM | Errno::EACCES) => false,
            Err(why) => return Err(why.into()),
        };
        let fifo = open(dir, name)?;
        if made {
            // Set explicitly, because the umask would change the mode.
            fifo.set_permissions(std::fs::Permissions::from_mode(mode & 0o666))?;
        }
        let wake = Arc::new(Own::new(high(fifo.try_clone()?.into())));
        Ok(Waker { fifo, wake, is_armed: false })
    }

    /// The descriptor to poll.
    pub(crate) fn wake_fd(&self) -> Arc<Own> {
        self.wake.clone()
    }

    /// Empty the FIFO, so that a thread that polls it sleeps until a sender writes.
    pub(crate) fn arm(&mut self) {
        let mut sink = [0; 512];
        if let Some(mut fifo) = self.fifo.get() {
            _ = (0..MAX_READS).find(|_| !fifo.read(&mut sink).is_ok_and(|bytes| bytes == sink.len()));
        }
        self.is_armed = true;
    }

    /// Make it readable: the member must not sleep.
    #[cold]
    pub(crate) fn ring(&self) {
        write_byte(&self.fifo);
    }
}

/// Open the FIFO of a member for reading and writing: then a write raises no signal, and a reader need not exist.
pub(crate) fn open(dir: &OwnedFd, name: &CStr) -> io::Result<Own<File>> {
    let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::empty())?);
    if !file.metadata()?.file_type().is_fifo() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(high(file).into())
}

/// Make a FIFO readable. A full one is readable already.
#[inline]
pub(crate) fn write_byte(fifo: &Own<File>) {
    let _ = fifo.get().map(|mut fifo| fifo.write(&[1]));
}
