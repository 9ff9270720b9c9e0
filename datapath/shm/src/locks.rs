//! Who is alive: locks that the kernel holds for an open file, and gives up with it, however its process ends.
//!
//! ```text
//!   byte   GATE           GATE + 1      GATE + 2      …      (far behind the end of the file)
//!          who opens or   member 0      member 1
//!          closes
//! ```
//!
//! Open file description locks: two members of one process are two, and closing another descriptor of
//! the same file loses nothing.

use std::fs::File;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use crate::options::MOST_MEMBERS;

const GATE: libc::off_t = 1 << 40;

/// Opening and closing take a few milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_micros(200);

fn lock(kind: libc::c_int, byte: libc::off_t) -> libc::flock {
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: byte, l_len: 1, l_pid: 0 }
}

fn try_lock(file: &File, byte: libc::off_t) -> nix::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&lock(libc::F_WRLCK, byte))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(why) => Err(why),
    }
}

fn unlock(file: &File, byte: libc::off_t) {
    // It cannot fail for a descriptor that is open.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&lock(libc::F_UNLCK, byte)));
}

/// The right to change who is a member; given up when dropped.
#[derive(Debug)]
pub(crate) struct Gate<'a>(&'a File);

impl Gate<'_> {
    /// Wait for it, [`PATIENCE`] at most; then `None`: somebody holds it who should not.
    pub(crate) fn pass(file: &File) -> nix::Result<Option<Gate<'_>>> {
        let start = Instant::now();
        while !try_lock(file, GATE)? {
            if start.elapsed() > PATIENCE {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
        Ok(Some(Gate(file)))
    }

    /// Unless somebody holds it.
    pub(crate) fn try_pass(file: &File) -> Option<Gate<'_>> {
        try_lock(file, GATE).ok()?.then_some(Gate(file))
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        unlock(self.0, GATE);
    }
}

/// Be this member until the file is closed. False if somebody is.
pub(crate) fn be(file: &File, member: usize) -> nix::Result<bool> {
    try_lock(file, GATE + 1 + member as libc::off_t)
}

/// Be no member any more, before the gate is given up: the file is closed later.
pub(crate) fn cease(file: &File) {
    let members = libc::flock { l_len: MOST_MEMBERS as libc::off_t, ..lock(libc::F_UNLCK, GATE + 1) };
    // It cannot fail for a descriptor that is open.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&members));
}

/// Whether somebody else is this member. Does not wait.
pub(crate) fn is_alive(file: &File, member: usize) -> bool {
    let mut asked = lock(libc::F_WRLCK, GATE + 1 + member as libc::off_t);
    // Who cannot be asked about is taken for alive.
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut asked)).is_err() || asked.l_type != libc::F_UNLCK as libc::c_short
}
