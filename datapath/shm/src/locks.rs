//! Who is alive: locks that the kernel holds for an open file, and gives up with it, however its process ends.
//!
//! ```text
//!   byte   GATE           GATE + 1      GATE + 2      …      RUNS …            (far behind the end of the file)
//!          who opens or   member 0      member 1             of each member as many bytes as its birth says
//!          closes
//! ```
//!
//! So the kernel also says which birth a member has, whatever others write into the segment.
//!
//! Open file description locks: two members of one process are two, and closing another descriptor of
//! the same file loses nothing.

use std::fs::File;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

const GATE: libc::off_t = 1 << 40;
const RUNS: libc::off_t = 1 << 41;
/// Bytes of each member there: more than any birth.
const RUN: libc::off_t = 1 << 33;

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

/// Be this member, with this birth, until the file is closed. False if somebody is.
pub(crate) fn be(file: &File, member: usize, birth: u32) -> nix::Result<bool> {
    if !try_lock(file, GATE + 1 + member as libc::off_t)? {
        return Ok(false);
    }
    let run = libc::flock { l_len: birth.into(), ..lock(libc::F_WRLCK, run_at(member)) };
    fcntl(file, FcntlArg::F_OFD_SETLK(&run)).map(|_| true)
}

fn run_at(member: usize) -> libc::off_t {
    RUNS + member as libc::off_t * RUN
}

/// Be seen no more by those who are there. The number is kept for now.
pub(crate) fn end_run(file: &File, member: usize) {
    let run = libc::flock { l_len: RUN, ..lock(libc::F_UNLCK, run_at(member)) };
    // It cannot fail for a descriptor that is open.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&run));
}

/// Be no member any more, before the gate is given up: the file is closed later.
pub(crate) fn cease(file: &File) {
    // To the end: the runs too.
    let all = libc::flock { l_len: 0, ..lock(libc::F_UNLCK, GATE + 1) };
    // It cannot fail for a descriptor that is open.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&all));
}

/// Whether somebody else is this member. Does not wait.
pub(crate) fn is_alive(file: &File, member: usize) -> bool {
    // Who cannot be asked about is taken for alive.
    held(file, GATE + 1 + member as libc::off_t).map_or(true, |held| held.is_some())
}

/// Whether somebody else is this member with this birth. Does not wait.
pub(crate) fn is_run(file: &File, member: usize, birth: u32) -> bool {
    held(file, run_at(member)).map_or(true, |held| held == Some(birth.into()))
}

/// How many bytes from this one on are locked by another.
fn held(file: &File, byte: libc::off_t) -> nix::Result<Option<libc::off_t>> {
    let mut asked = lock(libc::F_WRLCK, byte);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut asked))?;
    Ok((asked.l_type != libc::F_UNLCK as libc::c_short).then_some(asked.l_len))
}
