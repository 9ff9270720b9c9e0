//! One descriptor that becomes readable when one of several does.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

/// `None` where one of the ways cannot be waited for: then none is.
pub(crate) fn of_all<'a>(
    fds: impl Iterator<Item = Option<&'a [Arc<OwnedFd>]>>,
) -> nix::Result<Option<Vec<Arc<OwnedFd>>>> {
    let Some(fds) = fds.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (number, fd) in fds.into_iter().flatten().enumerate() {
        epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
    }
    Ok(Some(vec![Arc::new(epoll.0)]))
}
