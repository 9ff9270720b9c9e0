//! The socket: made, and bound to a queue.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use xsk_rs::config::{BindFlags, LibxdpFlags, SocketConfig};
use xsk_rs::{CompQueue, FillQueue, RxQueue, Socket, TxQueue, Umem};

use crate::chunk_layout::Writer;
use crate::errors::system_error;
use crate::holders::Holders;
use crate::interface::Interface;
use crate::options::XdpOptions;
use crate::umem::{Memory, queue_size};
use crate::{XdpOpenError, rights};

/// A queue stays in use for a moment after its socket was closed, because the kernel cleans up later. A bind waits this
/// long before it reports the queue as busy.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// The four rings of a bound socket.
pub(crate) struct Bound {
    pub(crate) rx: RxQueue,
    pub(crate) tx: TxQueue,
    pub(crate) fill: FillQueue,
    pub(crate) completion: CompQueue,
}

impl Bound {
    /// Make a socket and bind it, in copy or in zero-copy mode.
    ///
    /// # Errors
    /// [`XdpOpenError::Busy`], [`XdpOpenError::NoZeroCopy`], [`XdpOpenError::NoSuchQueue`] and others.
    pub(crate) fn new(
        options: &XdpOptions,
        interface: &Interface,
        memory: &Memory,
        writer: Writer,
    ) -> Result<Bound, XdpOpenError> {
        let sg = if memory.layout.is_single_chunk() { BindFlags::empty() } else { BindFlags::XDP_USE_SG };
        let attempt = Attempt { options, interface, umem: &memory.umem, sg };
        match writer {
            Writer::Kernel => attempt.bind(BindFlags::XDP_COPY).map_err(|error| attempt.bind_error(error)),
            Writer::Nic => attempt.bind(BindFlags::XDP_ZEROCOPY).map_err(|error| {
                if is_unrelated_to_mode(&error) { attempt.bind_error(error) } else { attempt.no_zero_copy(error) }
            }),
        }
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.rx.fd().as_raw_fd()
    }

    /// The socket's descriptor, borrowed from its rings.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        rx_fd(&self.rx)
    }
}

/// The socket's descriptor, borrowed from the receive ring.
pub(crate) fn rx_fd(rx: &RxQueue) -> BorrowedFd<'_> {
    // SAFETY: the ring keeps its socket open, and the borrow keeps the ring.
    unsafe { BorrowedFd::borrow_raw(rx.fd().as_raw_fd()) }
}

/// Whether the error has nothing to do with zero-copy.
fn is_unrelated_to_mode(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EPERM | libc::ENETDOWN | libc::ENODEV | libc::ENOMEM))
}

struct Attempt<'a> {
    options: &'a XdpOptions,
    interface: &'a Interface,
    umem: &'a Umem,
    /// Whether frames may be in several chunks.
    sg: BindFlags,
}

impl Attempt<'_> {
    fn bind(&self, mode: BindFlags) -> io::Result<Bound> {
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match self.bind_now(mode) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                    sleep(Duration::from_millis(5));
                }
                result => return result,
            }
        }
    }

    fn bind_now(&self, mode: BindFlags) -> io::Result<Bound> {
        let name = self.interface.name.parse().map_err(io::Error::other)?;
        let config = SocketConfig::builder()
            .rx_queue_size(queue_size(self.options.rings.rx)?)
            .tx_queue_size(queue_size(self.options.rings.tx)?)
            // We load the program ourselves: see `bpf`.
            .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
            .bind_flags(mode | self.sg | BindFlags::XDP_USE_NEED_WAKEUP)
            .build();
        // SAFETY: no second socket of this UMEM may load a program on this queue. There is no second socket, and none
        // loads a program.
        let made = unsafe { Socket::new(config, self.umem, &name, self.options.queue) };
        let (tx, rx, rings) = made.map_err(|error| system_error(&error))?;
        let (fill, done) = rings.ok_or_else(|| io::Error::other("the UMEM's rings are another socket's"))?;
        // libxdp lets child processes inherit the socket, which would keep the queue in use.
        fcntl(rx_fd(&rx), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        Ok(Bound { rx, tx, fill, completion: done })
    }

    fn no_zero_copy(&self, source: io::Error) -> XdpOpenError {
        let Interface { name, driver, .. } = self.interface.clone();
        XdpOpenError::NoZeroCopy { interface: name, queue: self.options.queue, driver, source }
    }

    fn bind_error(&self, source: io::Error) -> XdpOpenError {
        let (interface, queue) = (self.interface.name.clone(), self.options.queue);
        let doing = || format!("binding a socket to queue {queue} of {interface}");
        match source.raw_os_error() {
            Some(libc::EBUSY) => {
                let is_ours = am_bpf::sibling(self.interface.index).is_some();
                XdpOpenError::Busy { interface, queue, holders: Holders::find(), is_ours }
            }
            Some(libc::ENETDOWN) => XdpOpenError::Down { interface },
            Some(libc::ENODEV) => XdpOpenError::NoSuchInterface { interface, have: Vec::new() },
            Some(libc::ENOMEM | libc::ENOBUFS) => XdpOpenError::Memory { what: "the rings of a socket".to_owned() },
            Some(libc::EPERM) => {
                rights::check().err().map_or_else(|| XdpOpenError::system(doing(), source), XdpOpenError::Rights)
            }
            _ => XdpOpenError::system(doing(), source),
        }
    }
}
