//! The socket: made, and bound to a queue.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use xsk_rs::config::{BindFlags, LibxdpFlags, SocketConfig};
use xsk_rs::{Socket, Umem};

use crate::chunk_layout::Writer;
use crate::errors::system_error;
use crate::holders::Holders;
use crate::interface::Interface;
use crate::options::XdpOptions;
use crate::ring::{Opened, SocketRings};
use crate::umem::{Memory, queue_size};
use crate::{XdpOpenError, rights};

/// A queue stays in use for a moment after its socket was closed: a child process has a copy of the socket between `fork` and `exec`.
/// A bind waits this long before it looks for the process that has the queue.
const BUSY_TIMEOUT: Duration = Duration::from_secs(3);
/// Where no process has the queue, the kernel is still releasing it. The release needs the kernel's lock of all interfaces, which takes
/// seconds on a machine where many interfaces are made and removed. A bind waits this long in all.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(20);

/// Make a socket and bind it, in copy or in zero-copy mode. Returns its rings.
///
/// # Errors
/// [`XdpOpenError::Busy`], [`XdpOpenError::NoZeroCopy`], [`XdpOpenError::NoSuchQueue`] and others.
pub(crate) fn bind(
    options: &XdpOptions,
    interface: &Interface,
    memory: &Memory,
    writer: Writer,
) -> Result<SocketRings, XdpOpenError> {
    let mode = match writer {
        Writer::Kernel => BindFlags::XDP_COPY,
        Writer::Nic => BindFlags::XDP_ZEROCOPY,
    };
    let sg = if memory.layout.is_single_chunk() { BindFlags::empty() } else { BindFlags::XDP_USE_SG };
    let (since, mut next_look) = (Instant::now(), BUSY_TIMEOUT);
    let opened = loop {
        match bind_now(options, interface, &memory.umem, mode | sg) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let waited = since.elapsed();
                if waited >= next_look {
                    next_look += Duration::from_secs(1);
                    let holders = Holders::find();
                    let (name, is_ours) = (interface.name.clone(), am_bpf::sibling(interface.index).is_some());
                    // What this process has is on other interfaces.
                    let is_elsewhere = holders.are_this_process() && !am_bpf::is_marked(interface.index);
                    let may_be_free = holders.is_empty() || is_elsewhere;
                    if !may_be_free || waited >= CLEAN_UP_TIMEOUT {
                        return Err(XdpOpenError::Busy { interface: name, queue: options.queue, holders, is_ours });
                    }
                }
                sleep(Duration::from_millis(5));
            }
            result => break result.map_err(|error| bind_error(options, interface, writer, error))?,
        }
    };
    // The transmit ring is the first that it looks for.
    SocketRings::find(opened, &options.rings).map_err(|error| XdpOpenError::system("finding the transmit ring", error))
}

fn bind_now(options: &XdpOptions, interface: &Interface, umem: &Umem, mode: BindFlags) -> io::Result<Opened> {
    let name = interface.name.parse().map_err(io::Error::other)?;
    // libxdp looks the index up by the name again.
    if am_bpf::interface_index(&interface.name)? != interface.index {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let config = SocketConfig::builder()
        .rx_queue_size(queue_size(options.rings.rx)?)
        .tx_queue_size(queue_size(options.rings.tx)?)
        // We load the program ourselves: see `bpf`.
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(mode | BindFlags::XDP_USE_NEED_WAKEUP)
        .build();
    // SAFETY: no second socket of this UMEM may load a program on this queue. There is no second socket, and none loads
    // a program.
    let made = unsafe { Socket::new(config, umem, &name, options.queue) };
    let (tx, rx, rings) = made.map_err(|error| system_error(&error))?;
    let (fill, completion) = rings.ok_or_else(|| io::Error::other("the UMEM's rings are another socket's"))?;
    // libxdp lets child processes inherit the socket, which would keep the queue in use.
    // SAFETY: the ring keeps its socket open, and lives across the call.
    fcntl(unsafe { BorrowedFd::borrow_raw(rx.fd().as_raw_fd()) }, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok((rx, tx, fill, completion))
}

fn bind_error(options: &XdpOptions, interface: &Interface, writer: Writer, source: io::Error) -> XdpOpenError {
    let (Interface { name: interface, driver, .. }, queue) = (interface.clone(), options.queue);
    let doing = || format!("binding a socket to queue {queue} of {interface}");
    match source.raw_os_error() {
        Some(libc::ENETDOWN) => XdpOpenError::Down { interface },
        Some(libc::ENODEV) => XdpOpenError::NoSuchInterface { interface, have: Vec::new() },
        Some(libc::EPERM) => {
            rights::check().err().map_or_else(|| XdpOpenError::system(doing(), source), XdpOpenError::Rights)
        }
        Some(libc::EMFILE | libc::ENFILE) => XdpOpenError::system(doing(), source),
        Some(libc::ENOMEM) => XdpOpenError::Memory { what: "the rings of a socket".to_owned() },
        // All others may be about the mode.
        _ if writer == Writer::Nic => XdpOpenError::NoZeroCopy { interface, queue, driver, source },
        Some(libc::ENOBUFS) => XdpOpenError::Memory { what: "the rings of a socket".to_owned() },
        _ => XdpOpenError::system(doing(), source),
    }
}
