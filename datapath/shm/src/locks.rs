//! Who is alive: locks that the kernel holds for an open file, and gives up with it, however its process ends.
//!
//! ```text
//!   byte   GATE           GATE + 1      GATE + 2      …      RUNS …            (far behind the end of the file)
//!          who opens or   member 0      member 1             of each member as many bytes as its birth says
//!          closes
//! ```
//!
//! So the kernel also says which birth a member has, whatever others write into the segment, and, at `TURN`, which of many that open is
//! at it now.
//!
//! Open file description locks: two members of one process are two, and closing another descriptor of
//! the same file loses nothing.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

const GATE: libc::off_t = 1 << 40;
const RUNS: libc::off_t = 1 << 41;
/// Bytes of each member there: more than any birth.
const RUN: libc::off_t = 1 << 33;

/// As many bytes as a number says that a process draws when it passes the gate: processes that wait see by it that the holder is another.
const TURN: libc::off_t = 1 << 60;

/// Opening and closing take one process a few milliseconds, and on a busy machine some hundred.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Those who wait look again after so long: many who look often keep who is in from getting on.
const LOOKS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(5)];

fn lock(kind: libc::c_int, byte: libc::off_t, length: libc::off_t) -> libc::flock {
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: byte, l_len: length, l_pid: 0 }
}

/// Lock these bytes. An error, `EAGAIN` or `EACCES`, where another process has one of them.
fn take(file: &File, byte: libc::off_t, length: libc::off_t) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock(libc::F_WRLCK, byte, length))).map(|_| ())
}

fn try_lock(file: &File, byte: libc::off_t) -> nix::Result<bool> {
    match take(file, byte, 1) {
        Ok(()) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(why) => Err(why),
    }
}

/// As far as they are ours. No length: all bytes from there on.
fn unlock(file: &File, byte: libc::off_t, length: libc::off_t) {
    // It cannot fail for a descriptor that is open.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&lock(libc::F_UNLCK, byte, length)));
}

/// The right to change who is a member; given up when dropped.
#[derive(Debug)]
pub(crate) struct Gate<'a>(&'a File);

impl Gate<'_> {
    /// Wait for it as long as others pass, and for each of them [`PATIENCE`] at most; then `None`: it is held by one that should not.
    pub(crate) fn pass(file: &File) -> nix::Result<Option<Gate<'_>>> {
        Gate::pass_within(file, PATIENCE)
    }

    fn pass_within(file: &File, patience: Duration) -> nix::Result<Option<Gate<'_>>> {
        let (mut since, mut look, mut holder) = (Instant::now(), LOOKS[0], None);
        loop {
            if let Some(gate) = Gate::try_enter(file)? {
                return Ok(Some(gate));
            }
            let now = held(file, TURN)?;
            if now != holder {
                (since, holder) = (Instant::now(), now);
            } else if since.elapsed() > patience {
                return Ok(None);
            }
            std::thread::sleep(look);
            look = (look * 2).min(LOOKS[1]);
        }
    }

    /// Unless somebody holds it.
    pub(crate) fn try_pass(file: &File) -> Option<Gate<'_>> {
        Gate::try_enter(file).ok()?
    }

    fn try_enter(file: &File) -> nix::Result<Option<Gate<'_>>> {
        if !try_lock(file, GATE)? {
            return Ok(None);
        }
        let gate = Gate(file);
        take(file, TURN, draw().into())?;
        Ok(Some(gate))
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        unlock(self.0, TURN, 0);
        unlock(self.0, GATE, 1);
    }
}

/// A number that is different each time, and not 0.
pub(crate) fn draw() -> u32 {
    RandomState::new().build_hasher().finish() as u32 | 1
}

/// Be this member, with this birth, until the file is closed. False if somebody is.
pub(crate) fn be(file: &File, member: usize, birth: u32) -> nix::Result<bool> {
    if !try_lock(file, GATE + 1 + member as libc::off_t)? {
        return Ok(false);
    }
    take(file, run_at(member), birth.into()).map(|()| true)
}

fn run_at(member: usize) -> libc::off_t {
    RUNS + member as libc::off_t * RUN
}

/// Be seen no more by those who are there. The number is kept for now.
pub(crate) fn end_run(file: &File, member: usize) {
    unlock(file, run_at(member), RUN);
}

/// Be no member any more, before the gate is given up: the file is closed later.
pub(crate) fn cease(file: &File) {
    // The runs too.
    unlock(file, GATE + 1, TURN - GATE - 1);
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
    let mut asked = lock(libc::F_WRLCK, byte, 1);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut asked))?;
    Ok((asked.l_type != libc::F_UNLCK as libc::c_short).then_some(asked.l_len))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use super::*;

    const HELD: Duration = Duration::from_millis(40);

    fn open(dir: &tempfile::TempDir) -> File {
        File::options().read(true).write(true).create(true).truncate(false).open(dir.path().join("file")).unwrap()
    }

    #[test]
    fn many_who_pass_in_turn_are_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let is_held = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                // It is free for so short a time that who looks now and then hardly ever sees it.
                for _ in 0..15 {
                    let file = open(&dir);
                    let gate = Gate::pass(&file).unwrap();
                    is_held.store(true, Relaxed);
                    thread::sleep(HELD);
                    drop(gate);
                }
            });
            while !is_held.load(Relaxed) {
                thread::yield_now();
            }
            assert!(Gate::pass_within(&open(&dir), HELD * 5).unwrap().is_some());
        });
    }

    #[test]
    fn one_who_stays_in_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = open(&dir);
        let _gate = Gate::pass(&file).unwrap();
        assert!(Gate::pass_within(&open(&dir), HELD).unwrap().is_none());
    }
}
