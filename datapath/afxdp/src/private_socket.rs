//! Makes a UMEM whose socket no child process inherits.
//!
//! libxdp opens the socket without `SOCK_CLOEXEC`, and registering its memory takes milliseconds. A child that starts
//! meanwhile would keep the queue in use as long as it lives. So a thread with a descriptor table of its own opens the
//! socket: a child of any other thread copies the process's table.
//!
//! ```text
//!   the caller                            a thread with its own table
//!   /dev/null takes a number
//!                              ────────▶  closes all, fills the numbers below that one
//!                                         libxdp opens the socket, which gets that number
//!   receives it, close-on-exec ◀────────  sends it
//!   puts it in /dev/null's place
//! ```

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::panic::resume_unwind;
use std::thread;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};
use nix::unistd::close;
use xsk_rs::config::UmemConfig;
use xsk_rs::{FrameDesc, Umem};

use crate::errors::system_error;

/// As [`Umem::new`].
pub(crate) fn new_umem(config: UmemConfig, chunks: NonZeroU32, huge: bool) -> io::Result<(Umem, Vec<FrameDesc>)> {
    let place = File::open("/dev/null")?;
    let (receiver, sender) = socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::SOCK_CLOEXEC)?;
    let number = place.as_raw_fd();
    let make = || {
        isolate(&sender, number)?;
        let made = Umem::new(config, chunks, huge).map_err(|error| system_error(&error))?;
        send(&sender, number)?;
        Ok(made)
    };
    let made = on_a_thread(make)?;
    // From here on libxdp owns the number. It closes the number with the UMEM.
    let number = place.into_raw_fd();
    let socket = receive(&receiver)?;
    // SAFETY: both descriptors are open, and the second is /dev/null, which nothing uses.
    if unsafe { libc::dup3(socket.as_raw_fd(), number, libc::O_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(made)
}

/// Run this on a thread without signals: a handler of the program might use a descriptor that is not in the thread's table.
fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let started = thread::Builder::new().name("am-umem".into()).spawn_scoped(scope, work);
        before.thread_set_mask()?;
        started?.join().unwrap_or_else(|cause| resume_unwind(cause))
    })
}

/// Give the calling thread a descriptor table of its own, with `kept` in it and `next` as the first free number.
fn isolate(kept: &OwnedFd, next: RawFd) -> io::Result<()> {
    let number = kept.as_raw_fd();
    close_range(number + 1, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    if number > 0 {
        close_range(0, number - 1, 0)?;
    }
    while fcntl(kept, FcntlArg::F_DUPFD_CLOEXEC(0))? < next {}
    Ok(close(next)?)
}

fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the descriptors are closed in this thread's table only. The thread uses none of them.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn send(to: &OwnedFd, descriptor: RawFd) -> io::Result<()> {
    let rights = [ControlMessage::ScmRights(&[descriptor])];
    sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(&[0])], &rights, MsgFlags::empty(), None)?;
    Ok(())
}

fn receive(from: &OwnedFd) -> io::Result<OwnedFd> {
    let (mut byte, mut space) = ([0], nix::cmsg_space!(RawFd));
    let mut parts = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let descriptor = |part| match part {
        ControlMessageOwned::ScmRights(all) => all.first().copied(),
        _ => None,
    };
    // The kernel leaves out a descriptor for which the process has no number.
    let received = message.cmsgs().ok().and_then(|mut parts| parts.find_map(descriptor));
    let received = received.ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(received) })
}
