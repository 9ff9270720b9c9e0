//! Broadcast frames, passed from one node of the process to another. The NIC delivers a broadcast to one queue only, so
//! the node on that queue puts copies into the mailboxes of its siblings. Each node takes frames out of its own. A
//! mailbox holds 64 frames; when it is full, frames are dropped and counted.

use std::collections::VecDeque;
use std::io::{self, PipeWriter, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use am_ring::own::{Own, high};
use am_wire::control::Control;
use nix::unistd::read;

/// The most waiting frames: a beacon of each of 64 peers between two turns.
const MAX_WAITING: usize = 64;

/// Only control frames are broadcast.
const MAX_FRAME: usize = Control::MAX_FRAME;

/// A frame: its length, and its bytes.
type Waiting = (usize, [u8; MAX_FRAME]);

/// The mailbox of one node. The lock is held for one copy, or for one take.
pub(crate) struct Mailbox {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Whether frames wait. Read each turn, without the lock.
    has_some: AtomicBool,
    /// Readable while frames wait, so that it wakes a sleeping node. The pipe holds one byte exactly while `has_some`
    /// is set.
    wake_fd: Arc<Own>,
    wake_writer: Own<PipeWriter>,
    taken: AtomicU64,
    lost: AtomicU64,
}

impl Mailbox {
    /// # Errors
    /// The process has too many files open.
    pub(crate) fn new() -> io::Result<Mailbox> {
        let (bell, ring) = io::pipe()?;
        Ok(Mailbox {
            waiting: Mutex::new(VecDeque::with_capacity(MAX_WAITING)),
            has_some: AtomicBool::new(false),
            wake_fd: Arc::new(Own::new(high(bell.into()))),
            wake_writer: high(ring).into(),
            taken: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        })
    }

    pub(crate) fn wake_fd(&self) -> Arc<Own> {
        self.wake_fd.clone()
    }

    /// Copy a frame into the mailbox. A frame that is too long, or finds the mailbox full, is counted as lost.
    pub(crate) fn put(&self, frame: &[u8]) {
        let mut waiting = self.lock();
        if waiting.len() == MAX_WAITING || frame.len() > MAX_FRAME {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut bytes = [0; MAX_FRAME];
        bytes[..frame.len()].copy_from_slice(frame);
        waiting.push_back((frame.len(), bytes));
        if !self.has_some.swap(true, Ordering::Relaxed) {
            // The pipe is open and empty, so the write cannot fail or block.
            let _ = self.wake_writer.get().map(|mut writer| writer.write(&[0]));
        }
    }

    /// Take out at most `most` frames; returns how many.
    #[inline]
    pub(crate) fn take(&self, most: usize, each: &mut dyn FnMut(&[u8])) -> usize {
        if self.has_some.load(Ordering::Relaxed) { self.take_some(most, each) } else { 0 }
    }

    #[cold]
    fn take_some(&self, most: usize, each: &mut dyn FnMut(&[u8])) -> usize {
        let mut waiting = self.lock();
        let count = most.min(waiting.len());
        waiting.drain(..count).for_each(|(length, bytes)| each(&bytes[..length]));
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
        if waiting.is_empty() && self.has_some.swap(false, Ordering::Relaxed) {
            let _ = self.wake_fd.get().map(|reader| read(reader, &mut [0]));
        }
        count
    }

    /// Frames taken and frames lost, so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn rings(mailbox: &Mailbox) -> bool {
        let bell = mailbox.wake_fd();
        poll(&mut [PollFd::new(bell.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1
    }

    fn taken(mailbox: &Mailbox, most: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let count = mailbox.take(most, &mut |frame| frames.push(frame.to_vec()));
        assert_eq!(count, frames.len());
        frames
    }

    #[test]
    fn frames_come_out_as_they_went_in_and_the_bell_rings_until_then() {
        let mailbox = Mailbox::new().unwrap();
        assert!(!rings(&mailbox) && taken(&mailbox, 9).is_empty());
        for number in 0..3 {
            mailbox.put(&[number; 60]);
        }
        assert!(rings(&mailbox));
        assert_eq!(taken(&mailbox, 2), [[0; 60], [1; 60]]);
        assert!(rings(&mailbox), "one is left");
        assert_eq!(taken(&mailbox, 2), [[2; 60]]);
        assert!(!rings(&mailbox));
        assert_eq!(mailbox.counts(), (3, 0));
    }

    #[test]
    fn what_is_too_much_or_too_long_is_counted() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.put(&[0; MAX_FRAME + 1]);
        (0..MAX_WAITING + 2).for_each(|_| mailbox.put(&[7; MAX_FRAME]));
        assert_eq!(taken(&mailbox, usize::MAX).len(), MAX_WAITING);
        assert_eq!(mailbox.counts(), (MAX_WAITING as u64, 3));
    }
}
