//! One descriptor that becomes readable when one of several does.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use am_ring::own::{Own, high, replacements};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

/// Several descriptors, joined by epoll.
#[derive(Debug)]
pub struct JointWaker {
    /// Readable when one of the descriptors is.
    pub epoll: Own,
    fds: Vec<Arc<Own>>,
    /// The [`replacements`] when the descriptors were last watched. `None` while they are not.
    watched: Cell<Option<u32>>,
}

impl JointWaker {
    /// Join the descriptors of several transports. `None` if one of the transports has no descriptor: a thread that waited for the
    /// others would miss its frames.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn of_all<'a>(fds: impl Iterator<Item = Option<&'a [Arc<Own>]>>) -> io::Result<Option<JointWaker>> {
        let Some(fds) = fds.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let joint = JointWaker {
            epoll: high(epoll::create(CreateFlags::CLOEXEC)?).into(),
            fds: fds.concat(),
            watched: Cell::default(),
        };
        joint.watch()?;
        Ok(Some(joint))
    }

    /// Watch the files that the descriptors refer to now. A transport that reopens itself has another file under the same
    /// number, and epoll forgets a closed file. A transport that does so [replaces](Own::replace) the file, and without such a
    /// replacement this makes no system call.
    ///
    /// # Errors
    /// The kernel has no memory left.
    pub fn watch(&self) -> io::Result<()> {
        let replaced = replacements();
        if self.watched.get() == Some(replaced) {
            return Ok(());
        }
        for (number, fd) in self.fds.iter().enumerate() {
            match epoll::add(&self.epoll, fd, EventData::new_u64(number as u64), EventFlags::IN) {
                // EXIST: watched already. PERM: the transport is closed for now, and /dev/null has its place.
                Err(Errno::EXIST | Errno::PERM) => (),
                result => result?,
            }
        }
        self.watched.set(Some(replaced));
        Ok(())
    }

    /// Watch no descriptor until the next [`watch`](JointWaker::watch). While a socket is watched, each arriving frame runs
    /// epoll's callback, in the sender's system call or in the interrupt.
    pub fn unwatch(&self) {
        if self.watched.take().is_none() {
            return;
        }
        // Fails only for a descriptor that is not watched.
        self.fds.iter().for_each(|fd| _ = epoll::delete(&self.epoll, fd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::io::{Write, pipe};
    use std::os::fd::{AsFd, OwnedFd};

    fn is_readable(joint: &JointWaker) -> bool {
        let mut on = [PollFd::new(joint.epoll.as_fd(), PollFlags::POLLIN)];
        poll(&mut on, PollTimeout::ZERO).unwrap() > 0
    }

    #[test]
    fn another_file_under_the_same_number_is_watched_once_it_is_looked_for() {
        let ((first, _kept), (second, mut writer)) = (pipe().unwrap(), pipe().unwrap());
        let fds = [Arc::new(Own::new(OwnedFd::from(first)))];
        let joint = JointWaker::of_all([Some(&fds[..])].into_iter()).unwrap().unwrap();
        assert!(joint.fds[0].replace(&second));
        writer.write_all(b"1").unwrap();
        assert!(!is_readable(&joint));
        for _ in 0..2 {
            joint.watch().unwrap();
            assert!(is_readable(&joint));
        }
    }

    #[test]
    fn beside_a_closed_transport_the_others_are_watched() {
        let ((second, mut writer), closed) = (pipe().unwrap(), std::fs::File::open("/dev/null").unwrap());
        let fds = [closed.into(), second.into()].map(|fd: OwnedFd| Arc::new(Own::new(fd)));
        let joint = JointWaker::of_all([Some(&fds[..])].into_iter()).unwrap().unwrap();
        writer.write_all(b"1").unwrap();
        assert!(is_readable(&joint));
    }

    #[test]
    fn none_is_watched_between_two_waits() {
        let (reader, mut writer) = pipe().unwrap();
        let fds = [Arc::new(Own::new(OwnedFd::from(reader)))];
        let joint = JointWaker::of_all([Some(&fds[..])].into_iter()).unwrap().unwrap();
        (0..2).for_each(|_| joint.unwatch());
        writer.write_all(b"1").unwrap();
        assert!(!is_readable(&joint));
        joint.watch().unwrap();
        assert!(is_readable(&joint));
    }

    #[test]
    fn where_one_cannot_be_waited_for_none_is() {
        let (reader, _writer) = pipe().unwrap();
        let fds = [Arc::new(Own::new(OwnedFd::from(reader)))];
        assert!(JointWaker::of_all([Some(&fds[..]), None].into_iter()).unwrap().is_none());
    }
}
