//! Detects by file locks which members live. The kernel releases a lock when its process ends, however it ends.
//!
//! ```text
//!   byte   JOIN_LOCK      JOIN_LOCK + 1   JOIN_LOCK + 2   …   GENERATIONS …    (far behind the end of the file)
//!          one byte, held member 0        member 1            for each member, as many bytes as its generation
//!          while joining
//!          or leaving
//! ```
//!
//! So a member's generation can be asked of the kernel, whatever other processes write into the segment. At `HOLDER` the
//! length of a lock shows which process has the join lock.
//!
//! These are open file description locks. So two members of one process have different locks, and closing another
//! descriptor of the file releases nothing. A forked child would share them; `holder.rs` prevents that.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

const JOIN_LOCK: libc::off_t = 1 << 40;
const GENERATIONS: libc::off_t = 1 << 41;
/// Bytes for each member: more than any generation.
const GENERATION_SPAN: libc::off_t = 1 << 33;

/// The holder of the join lock locks a random number of bytes from here on. When this number changes, waiting processes
/// know that the holder has changed.
const HOLDER: libc::off_t = 1 << 60;

/// How long one process may have the join lock. Opening and closing take a few milliseconds, or some hundreds on a busy
/// machine.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest and the longest pause between two attempts. If many waiting processes tried often, they would slow down
/// the holder.
const RETRY_INTERVALS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(5)];

fn lock(kind: libc::c_int, byte: libc::off_t, length: libc::off_t) -> libc::flock {
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: byte, l_len: length, l_pid: 0 }
}

/// Lock these bytes. Fails with `EAGAIN` or `EACCES` if another process has locked one of them.
fn lock_range(file: &File, byte: libc::off_t, length: libc::off_t) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock(libc::F_WRLCK, byte, length))).map(|_| ())
}

fn try_lock(file: &File, byte: libc::off_t) -> nix::Result<bool> {
    match lock_range(file, byte, 1) {
        Ok(()) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Release this file's locks on these bytes. Length 0 means all bytes from there on.
fn unlock(file: &File, byte: libc::off_t, length: libc::off_t) {
    // Unlocking cannot fail on an open descriptor.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&lock(libc::F_UNLCK, byte, length)));
}

/// The right to join or leave; released when dropped.
#[derive(Debug)]
pub(crate) struct JoinLock<'a>(&'a File);

impl JoinLock<'_> {
    /// Wait for the join lock, at most [`LOCK_TIMEOUT`] for each holder. `None`: one process holds it for longer.
    pub(crate) fn acquire(file: &File) -> nix::Result<Option<JoinLock<'_>>> {
        JoinLock::acquire_within(file, LOCK_TIMEOUT)
    }

    fn acquire_within(file: &File, timeout: Duration) -> nix::Result<Option<JoinLock<'_>>> {
        let (mut since, mut pause, mut holder) = (Instant::now(), RETRY_INTERVALS[0], None);
        loop {
            if let Some(join_lock) = JoinLock::try_acquire(file)? {
                return Ok(Some(join_lock));
            }
            let now = locked_length(file, HOLDER)?;
            if now != holder {
                (since, holder) = (Instant::now(), now);
            } else if since.elapsed() > timeout {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(RETRY_INTERVALS[1]);
        }
    }

    /// Take the join lock if it is free.
    pub(crate) fn try_acquire(file: &File) -> nix::Result<Option<JoinLock<'_>>> {
        if !try_lock(file, JOIN_LOCK)? {
            return Ok(None);
        }
        let join_lock = JoinLock(file);
        lock_range(file, HOLDER, random_nonzero().into())?;
        Ok(Some(join_lock))
    }
}

impl Drop for JoinLock<'_> {
    fn drop(&mut self) {
        unlock(self.0, HOLDER, 0);
        unlock(self.0, JOIN_LOCK, 1);
    }
}

/// A random number other than 0.
pub(crate) fn random_nonzero() -> u32 {
    RandomState::new().build_hasher().finish() as u32 | 1
}

/// Take the number of this member until the file is closed. `false` if it is taken.
pub(crate) fn claim_number(file: &File, member: usize) -> nix::Result<bool> {
    try_lock(file, JOIN_LOCK + 1 + member as libc::off_t)
}

/// Lock this generation of a member.
pub(crate) fn lock_generation(file: &File, member: usize, generation: u32) -> nix::Result<()> {
    lock_range(file, generation_at(member), generation.into())
}

fn generation_at(member: usize) -> libc::off_t {
    GENERATIONS + member as libc::off_t * GENERATION_SPAN
}

/// Release all locks of a member. Called while the join lock is held; the file is closed later.
pub(crate) fn release_all(file: &File) {
    // The range includes the generations.
    unlock(file, JOIN_LOCK + 1, HOLDER - JOIN_LOCK - 1);
}

/// Whether another open file is this member. Does not wait.
pub(crate) fn is_alive(file: &File, member: usize) -> bool {
    // On an error the member counts as alive.
    locked_length(file, JOIN_LOCK + 1 + member as libc::off_t).map_or(true, |held| held.is_some())
}

/// Whether another open file is this member with this generation. Does not wait.
pub(crate) fn is_generation_alive(file: &File, member: usize, generation: u32) -> bool {
    locked_length(file, generation_at(member)).map_or(true, |held| held == Some(generation.into()))
}

/// The length of another process's lock that starts at this byte.
fn locked_length(file: &File, byte: libc::off_t) -> nix::Result<Option<libc::off_t>> {
    let mut query = lock(libc::F_WRLCK, byte, 1);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut query))?;
    Ok((query.l_type != libc::F_UNLCK as libc::c_short).then_some(query.l_len))
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
    fn many_holders_in_turn_are_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let is_held = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                // The lock is free for so short a time that a waiting process hardly ever sees it free.
                for _ in 0..15 {
                    let file = open(&dir);
                    let join_lock = JoinLock::acquire(&file).unwrap();
                    is_held.store(true, Relaxed);
                    thread::sleep(HELD);
                    drop(join_lock);
                }
            });
            while !is_held.load(Relaxed) {
                thread::yield_now();
            }
            assert!(JoinLock::acquire_within(&open(&dir), HELD * 5).unwrap().is_some());
        });
    }

    #[test]
    fn a_holder_that_stays_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = open(&dir);
        let _join_lock = JoinLock::acquire(&file).unwrap();
        assert!(JoinLock::acquire_within(&open(&dir), HELD).unwrap().is_none());
    }
}
