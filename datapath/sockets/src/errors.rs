//! Why a socket could not be opened, and what to do about it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use am_ring::LayoutError;
use am_transport::PeerAddressError;
use am_transport::memory::NoMemory;
use nix::errno::Errno;

/// Why a socket could not be opened. A failed attempt leaves nothing behind.
#[derive(thiserror::Error)]
pub enum SocketOpenError {
    /// The port is in use.
    #[error(
        "{scheme} port {} of {} is in use: `ss -lnp{} sport = :{}` names the process; choose another port, or 0 for any free one",
        local.port(), local.ip(), &scheme[..1], local.port()
    )]
    InUse {
        /// `udp` or `tcp`.
        scheme: &'static str,
        /// The address that was asked for.
        local: SocketAddr,
    },
    /// No interface has the address.
    #[error("no interface has the address of {0}: `ip -brief address` lists all addresses")]
    NotHere(SocketAddr),
    /// No socket can be bound to this address.
    #[error("no socket can be bound to {local}: {why}")]
    NoPlace {
        /// The address that was asked for.
        local: SocketAddr,
        /// The reason, and what to write instead.
        why: &'static str,
    },
    /// The system lacks IPv6, or IPv4.
    #[error(
        "this system does not support the protocol of {0}: for IPv6, `sysctl net.ipv6.conf.all.disable_ipv6` must be 0"
    )]
    Family(SocketAddr),
    /// The port needs a capability.
    #[error(
        "port {0} needs the capability CAP_NET_BIND_SERVICE: choose one from 1024 on, or \
         `sudo setcap cap_net_bind_service+ep PROGRAM`"
    )]
    Port(u16),
    /// Busy polling needs a capability.
    #[error(
        "busy-poll={0} needs the capability CAP_NET_ADMIN: `sudo setcap cap_net_admin+ep PROGRAM`, or \
         `sudo sysctl -w net.core.busy_read={0}` for all programs"
    )]
    BusyPoll(u128),
    /// The kernel allows only smaller buffers.
    #[error(
        "buffer={asked}: the system allows {got} bytes at most; `sudo sysctl -w net.core.{limit}={asked}` raises that"
    )]
    Buffer {
        /// As asked for.
        asked: usize,
        /// What the kernel allows.
        got: usize,
        /// The setting that limits it.
        limit: &'static str,
    },
    /// The buffers are too small.
    #[error("buffer={asked}: the least is {least} bytes; leave it out for the default")]
    SmallBuffer {
        /// As asked for.
        asked: usize,
        /// The least possible.
        least: usize,
    },
    /// The longest frame is out of range.
    #[error("frame={asked}: the longest frame must be {least} to {most} bytes{}", if *by_mtu { ", or more with `fragment`" } else { "" })]
    Frame {
        /// As asked for.
        asked: usize,
        /// The least possible: set-up frames must fit.
        least: usize,
        /// The most possible.
        most: usize,
        /// Whether the MTU of the interface limits it.
        by_mtu: bool,
    },
    /// There is no memory for the pool.
    #[error("{0}: lower `frames=`, or `frame=`")]
    Memory(#[from] NoMemory),
    /// The layout of the pool is invalid.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// A peer address is invalid.
    #[error(transparent)]
    Peer(#[from] PeerAddressError),
    /// The process or the system has no descriptor left.
    #[error(
        "{doing}: {error}: each socket takes a few descriptors; `ulimit -n` says how many a process may have, and raises it"
    )]
    Descriptors {
        /// The failed operation.
        doing: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Another error of the system.
    #[error("{doing}: {error}")]
    System {
        /// The failed operation.
        doing: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

am_transport::debug_as_display!(SocketOpenError);

/// For `map_err`: names the failed operation.
pub(crate) fn doing(doing: &'static str) -> impl Fn(io::Error) -> SocketOpenError {
    move |error| match is_out_of_descriptors(&error) {
        true => SocketOpenError::Descriptors { doing, error },
        false => SocketOpenError::System { doing, error },
    }
}

/// Whether the process or the system has no descriptor left.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE))
}

impl SocketOpenError {
    /// The error for a failed bind.
    pub(crate) fn bind(scheme: &'static str, local: SocketAddr, error: io::Error) -> SocketOpenError {
        match error.kind() {
            ErrorKind::AddrInUse => SocketOpenError::InUse { scheme, local },
            ErrorKind::AddrNotAvailable => SocketOpenError::NotHere(local),
            ErrorKind::PermissionDenied => SocketOpenError::Port(local.port()),
            _ if error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) => SocketOpenError::Family(local),
            _ => doing("bind a socket")(error),
        }
    }
}
