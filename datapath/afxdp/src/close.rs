//! The socket closed, for certain and at once.

use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use xsk_rs::config::{BindFlags, LibxdpFlags, SocketConfig, UmemConfig};
use xsk_rs::{Socket, Umem};

use crate::OpenError;
use crate::bind::Bound;
use crate::errors::system_error;

/// Closes the socket when dropped, whoever else has a number for it.
///
/// libxdp makes the socket together with the UMEM and closes it with the UMEM.
/// But the UMEM lives as long as a frame of it does, and frames may outlive the
/// transport, while those in the kernel's hands come home only when the socket
/// is closed. So what the numbers refer to is replaced: the socket goes, each
/// number stays with who has it.
pub(crate) struct CloseOnDrop {
    /// libxdp's number.
    socket: RawFd,
    /// Keeps it libxdp's.
    _umem: Umem,
    /// To wait on: a duplicate.
    wake: Arc<OwnedFd>,
    /// What the numbers refer to afterwards; opened early, so that closing cannot fail.
    nothing: File,
    /// Interface and queue, where the NIC itself writes to our memory.
    zero_copy: Option<(String, u32)>,
}

impl CloseOnDrop {
    /// # Errors
    /// The process has too many files open.
    pub(crate) fn new(bound: &Bound, umem: Umem, zero_copy: Option<(String, u32)>) -> Result<CloseOnDrop, OpenError> {
        let failed = |error| OpenError::system("duplicating the socket's descriptor", error);
        // A duplicate, though an epoll instance would not need replacing: one
        // that watches a socket costs each arriving frame 300 ns.
        let wake = Arc::new(bound.fd().try_clone_to_owned().map_err(failed)?);
        let nothing = File::open("/dev/null").map_err(failed)?;
        Ok(CloseOnDrop { socket: bound.raw_fd(), _umem: umem, wake, nothing, zero_copy })
    }

    /// The same for the socket that comes after another: whoever waits for that one waits for this one from now on.
    pub(crate) fn again(
        bound: &Bound,
        umem: Umem,
        zero_copy: Option<(String, u32)>,
        wake: Arc<OwnedFd>,
    ) -> Result<CloseOnDrop, OpenError> {
        let mut again = CloseOnDrop::new(bound, umem, zero_copy)?;
        // SAFETY: both numbers are ours and open. The second is /dev/null: see `drop`. It cannot fail.
        unsafe { libc::dup3(again.wake.as_raw_fd(), wake.as_raw_fd(), libc::O_CLOEXEC) };
        again.wake = wake;
        Ok(again)
    }

    /// Becomes readable when frames arrive, and always is once the socket is closed.
    pub(crate) fn wake(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let nothing = self.nothing.as_raw_fd();
        // SAFETY: both numbers are open, one because the UMEM lives and one
        // because `wake` does, and both are this socket: its rings are unmapped
        // and no borrow of it is left, since whoever drops this has dropped the
        // rings. From here on they are /dev/null. It cannot fail.
        unsafe {
            libc::dup3(nothing, self.wake.as_raw_fd(), libc::O_CLOEXEC);
            libc::dup3(nothing, self.socket, libc::O_CLOEXEC);
        }
        if let Some((interface, queue)) = &self.zero_copy {
            wait_until_free(interface, *queue);
        }
    }
}

/// A driver gives up its queue some time after the socket was closed, and until
/// then its NIC writes to the frames that it has. Another socket can be bound
/// once it did.
fn wait_until_free(interface: &str, queue: u32) {
    let deadline = Instant::now() + Duration::from_secs(1);
    while is_taken(interface, queue) && Instant::now() < deadline {
        sleep(Duration::from_millis(1));
    }
}

/// Whether a socket cannot be bound because there is one.
pub(crate) fn is_taken(interface: &str, queue: u32) -> bool {
    matches!(try_bind(interface, queue), Err(error) if error.raw_os_error() == Some(libc::EBUSY))
}

fn try_bind(interface: &str, queue: u32) -> io::Result<()> {
    let two = const { NonZeroU32::new(2).unwrap() };
    let (umem, _) = Umem::new(UmemConfig::default(), two, false).map_err(|error| system_error(&error))?;
    let config = SocketConfig::builder()
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(BindFlags::XDP_COPY)
        .build();
    let name = interface.parse().map_err(io::Error::other)?;
    // SAFETY: the only socket of this UMEM; it loads no program.
    unsafe { Socket::new(config, &umem, &name, queue) }.map(drop).map_err(|error| system_error(&error))
}
