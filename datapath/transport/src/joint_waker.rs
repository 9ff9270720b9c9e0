//! One descriptor that becomes readable when one of several does.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

/// Several descriptors, joined by epoll.
#[derive(Debug)]
pub struct JointWaker {
    /// Readable when one of the descriptors is.
    pub epoll: Epoll,
    fds: Vec<Arc<OwnedFd>>,
}

impl JointWaker {
    /// Join the descriptors of several transports. `None` if one of the transports has none: then a thread cannot wait for the
    /// others either.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn of_all<'a>(fds: impl Iterator<Item = Option<&'a [Arc<OwnedFd>]>>) -> nix::Result<Option<JointWaker>> {
        let Some(fds) = fds.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let joint = JointWaker { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?, fds: fds.concat() };
        joint.watch()?;
        Ok(Some(joint))
    }

    /// Watch the files that the descriptors refer to now. A transport that reopens itself has another file under the same
    /// number, and epoll forgets a closed file.
    ///
    /// # Errors
    /// The kernel has no memory left.
    pub fn watch(&self) -> nix::Result<()> {
        for (number, fd) in self.fds.iter().enumerate() {
            match self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, number as u64)) {
                // Watched already; or of a transport that is closed for the time being, in whose place is /dev/null.
                Err(Errno::EEXIST | Errno::EPERM) => (),
                result => result?,
            }
        }
        Ok(())
    }

    /// Watch none of them until the next [`watch`](JointWaker::watch). While a socket is watched, each frame that arrives
    /// there runs the epoll's callback, in the sender's system call or in the interrupt.
    pub fn unwatch(&self) {
        // It fails only for a descriptor that is not watched.
        self.fds.iter().for_each(|fd| _ = self.epoll.delete(fd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::OFlag;
    use nix::sys::epoll::EpollTimeout;
    use nix::unistd::dup3;
    use std::io::{Write, pipe};

    fn is_readable(joint: &JointWaker) -> bool {
        joint.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).unwrap() > 0
    }

    #[test]
    fn another_file_under_the_same_number_is_watched_once_it_is_looked_for() {
        let ((first, _kept), (second, mut writer)) = (pipe().unwrap(), pipe().unwrap());
        let fds = [Arc::new(OwnedFd::from(first))];
        let mut joint = JointWaker::of_all([Some(&fds[..])].into_iter()).unwrap().unwrap();
        drop(fds);
        dup3(&second, Arc::get_mut(&mut joint.fds[0]).unwrap(), OFlag::O_CLOEXEC).unwrap();
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
        let fds = [closed.into(), second.into()].map(|fd: OwnedFd| Arc::new(fd));
        let joint = JointWaker::of_all([Some(&fds[..])].into_iter()).unwrap().unwrap();
        writer.write_all(b"1").unwrap();
        assert!(is_readable(&joint));
    }

    #[test]
    fn none_is_watched_between_two_waits() {
        let (reader, mut writer) = pipe().unwrap();
        let fds = [Arc::new(OwnedFd::from(reader))];
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
        let fds = [Arc::new(OwnedFd::from(reader))];
        assert!(JointWaker::of_all([Some(&fds[..]), None].into_iter()).unwrap().is_none());
    }
}
