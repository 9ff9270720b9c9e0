//! The socket closed, for certain and at once.

use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, RawFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use xsk_rs::config::{BindFlags, LibxdpFlags, SocketConfig, UmemConfig};
use xsk_rs::{Socket, Umem};

use crate::errors::system_error;

/// Closes the socket when dropped.
///
/// libxdp makes the socket together with the UMEM and closes it with the UMEM.
/// But the UMEM lives as long as a frame of it does, and frames may outlive the
/// transport, while those in the kernel's hands come home only when the socket
/// is closed. So what the number refers to is replaced: the socket goes, the
/// number stays libxdp's to close.
pub(crate) struct CloseOnDrop {
    socket: RawFd,
    /// What the number refers to afterwards; opened early, so that closing cannot fail.
    nothing: File,
    /// Keeps the number libxdp's.
    _umem: Umem,
    /// Interface and queue, where the NIC itself writes to our memory.
    zero_copy: Option<(String, u32)>,
}

impl CloseOnDrop {
    /// # Errors
    /// Those of opening `/dev/null`.
    pub(crate) fn new(socket: RawFd, umem: Umem, zero_copy: Option<(String, u32)>) -> io::Result<CloseOnDrop> {
        Ok(CloseOnDrop { socket, nothing: File::open("/dev/null")?, _umem: umem, zero_copy })
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        // SAFETY: the number is libxdp's socket, open because the UMEM lives;
        // its rings are unmapped and no borrow of it is left: whoever drops
        // this has dropped the rings. From here on it is /dev/null.
        // It cannot fail: both are open.
        unsafe { libc::dup2(self.nothing.as_raw_fd(), self.socket) };
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
