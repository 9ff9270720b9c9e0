//! How one who sleeps is woken: a FIFO for each member.
//!
//! Nobody tells a transport that its thread is about to sleep. So the FIFO is readable all the time, and who
//! polls it does not sleep, until [`arm`](Bell::arm): only after many receives that found nothing it is emptied, and
//! the member says in the segment that it may be asleep. Who sends looks at that word; the first to see it takes it
//! back and writes to the FIFO.
//!
//! ```text
//!   sender                        member
//!
//!   publish                       empty the FIFO
//!   fence SeqCst                  store asleep = 1
//!   load asleep, swap 0           fence SeqCst
//!   was 1? write to the FIFO      look for frames once more: if there are none it may sleep
//! ```
//!
//! Of the two fences one is first: either the sender sees the word, or the member sees the frame.
//! Who dies between the swap and the write, or lies, costs a sleeper the time of its longest sleep.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, mkfifoat, unlinkat};

/// Readable, unless armed.
#[derive(Debug)]
pub(crate) struct Bell {
    fifo: File,
    wake: Arc<OwnedFd>,
    is_armed: bool,
    /// It is neither readable for sure nor armed.
    owes: bool,
}

/// More than a FIFO holds, in so many reads.
const READS: usize = 17;

impl Bell {
    /// Make the FIFO of this name.
    pub(crate) fn new(dir: &OwnedFd, name: &CStr, mode: u32) -> io::Result<Bell> {
        let made = match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => mkfifoat(dir, name, Mode::S_IRUSR | Mode::S_IWUSR).map(|()| true)?,
            // Another user's who was killed: as good as one of our own.
            Err(Errno::EPERM | Errno::EACCES) => false,
            Err(why) => return Err(why.into()),
        };
        let fifo = open(dir, name)?;
        if made {
            // Not through the process's umask.
            fifo.set_permissions(std::fs::Permissions::from_mode(mode & 0o666))?;
        }
        let wake = Arc::new(fifo.try_clone()?.into());
        let mut bell = Bell { fifo, wake, is_armed: false, owes: true };
        bell.settle();
        Ok(bell)
    }

    /// What to poll.
    pub(crate) fn wake(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// From now on who polls it sleeps.
    pub(crate) fn arm(&mut self) {
        let mut sink = [0; 4096];
        for _ in 0..READS {
            if !matches!(self.fifo.read(&mut sink), Ok(1..)) {
                break;
            }
        }
        (self.is_armed, self.owes) = (true, false);
    }

    /// There are frames: who polls it shall not sleep. Readable with the next [`settle`](Self::settle).
    #[inline]
    pub(crate) fn disarm(&mut self) {
        (self.is_armed, self.owes) = (false, true);
    }

    /// Before anybody can poll it: readable unless armed.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.owes {
            self.owes = false;
            ring(&self.fifo);
        }
    }
}

/// Open the FIFO of a member. Also to read: nothing that is written to it can raise a signal then, and nobody has to be there.
pub(crate) fn open(dir: &OwnedFd, name: &CStr) -> io::Result<File> {
    let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::empty())?);
    if !file.metadata()?.file_type().is_fifo() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

/// Make it readable. If it is full it is.
#[inline]
pub(crate) fn ring(mut fifo: &File) {
    let _ = fifo.write(&[1]);
}
