//! Closes the socket for certain, and at once.

use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_ring::own::{Own, high};
use xsk_rs::config::{BindFlags, LibxdpFlags, SocketConfig, UmemConfig};
use xsk_rs::{Socket, Umem};

use crate::XdpOpenError;
use crate::errors::system_error;
use crate::ring::SocketRings;

/// Closes the socket when dropped, even where others hold a descriptor of it.
///
/// Programs hold one to wait on it ([`Caps::wake`](am_transport::Caps::wake)). libxdp makes the socket together with the
/// UMEM, and closes it with the UMEM. But the UMEM lives as long as any of its frames, and frames may outlive the
/// transport. Frames that the kernel holds return only when the socket is closed. So the descriptors are redirected to
/// `/dev/null`: the socket closes, and each holder keeps a valid descriptor.
pub(crate) struct CloseOnDrop {
    /// libxdp's descriptor, and the UMEM, which keeps it open. `None` for a socket that another process has made.
    libxdp: Option<(Own<BorrowedFd<'static>>, Umem)>,
    /// To wait on: a duplicate, or the only descriptor of a socket that another process has made.
    wake: Arc<Own>,
    /// `/dev/null`, opened early so that closing cannot fail.
    dev_null: Own<File>,
    /// Interface and queue, in zero-copy mode: there the NIC writes to our memory.
    zero_copy: Option<(String, u32)>,
}

impl CloseOnDrop {
    /// `replaced`: the wake descriptor of the socket that this one replaces. Events of this socket arrive there, too.
    ///
    /// # Errors
    /// The process has too many files open.
    pub(crate) fn new(
        rings: &SocketRings,
        umem: Umem,
        zero_copy: Option<(String, u32)>,
        replaced: Option<Arc<Own>>,
    ) -> Result<CloseOnDrop, XdpOpenError> {
        let failed = |error| XdpOpenError::system("duplicating the socket's descriptor", error);
        // A duplicate, though an epoll instance would need no redirection: an epoll instance that watches a socket
        // costs each received frame 300 ns.
        let mut wake = Arc::new(Own::new(high(rings.fd().try_clone_to_owned().map_err(failed)?)));
        let dev_null = high(File::open("/dev/null").map_err(failed)?).into();
        if let Some(replaced) = replaced {
            // It is /dev/null: see `drop`.
            replaced.replace(&*wake);
            wake = replaced;
        }
        // SAFETY: the UMEM keeps it open.
        let socket = Own::new(unsafe { BorrowedFd::borrow_raw(rings.fd().as_raw_fd()) });
        Ok(CloseOnDrop { libxdp: Some((socket, umem)), wake, dev_null, zero_copy })
    }

    /// For a socket that another process has made.
    ///
    /// # Errors
    /// The process has too many files open.
    pub(crate) fn given(socket: OwnedFd) -> io::Result<CloseOnDrop> {
        let (wake, dev_null) = (Arc::new(Own::new(high(socket))), high(File::open("/dev/null")?).into());
        Ok(CloseOnDrop { libxdp: None, wake, dev_null, zero_copy: None })
    }

    /// Readable when frames have arrived, and always once the socket is closed.
    pub(crate) fn wake(&self) -> Arc<Own> {
        self.wake.clone()
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        // All are this socket. Its rings are unmapped and no borrow of it is left, since the rings are dropped before this.
        let dev_null = self.dev_null.get();
        _ = dev_null.map(|dev_null| self.wake.replace(dev_null));
        if let Some((socket, umem)) = &self.libxdp
            && !dev_null.is_some_and(|dev_null| socket.replace(dev_null))
        {
            // The program has closed it. Libxdp would close whatever has its number, so the UMEM stays.
            std::mem::forget(umem.clone());
        }
        if let Some((interface, queue)) = &self.zero_copy {
            wait_until_free(interface, *queue);
        }
    }
}

/// A driver releases its queue some time after the socket was closed. Until then its NIC writes to the frames that it
/// has. The queue is free once another socket can be bound.
fn wait_until_free(interface: &str, queue: u32) {
    let deadline = Instant::now() + Duration::from_secs(1);
    let is_bound = || try_bind(interface, queue).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY));
    while is_bound() && Instant::now() < deadline {
        sleep(Duration::from_millis(1));
    }
}

fn try_bind(interface: &str, queue: u32) -> io::Result<()> {
    let two = const { NonZeroU32::new(2).unwrap() };
    let (umem, _) = Umem::new(UmemConfig::default(), two, false).map_err(|error| system_error(&error))?;
    let config = SocketConfig::builder()
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(BindFlags::XDP_COPY)
        .build();
    let name = interface.parse().map_err(io::Error::other)?;
    // SAFETY: this is the only socket of this UMEM, and it loads no program.
    unsafe { Socket::new(config, &umem, &name, queue) }.map(drop).map_err(|error| system_error(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::net::UnixDatagram;

    #[test]
    fn the_socket_closes_though_others_wait_on_it() {
        let (socket, other) = UnixDatagram::pair().unwrap();
        let socket = CloseOnDrop::given(socket.into()).unwrap();
        let wake = socket.wake();
        assert!(other.send(b"open").is_ok());
        drop(socket);
        assert!(other.send(b"closed").is_err());
        assert!(nix::sys::stat::fstat(&wake).is_ok(), "what the others have is a descriptor");
    }
}
