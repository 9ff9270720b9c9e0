//! Why a socket could not be opened, and what to do about it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use am_ring::LayoutError;
use am_transport::IntroduceError;
use am_transport::memory::NoMemory;
use nix::errno::Errno;

use crate::place;

/// Why a socket could not be opened. Nothing of the attempt is left.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody has the port.
    #[error(
        "{scheme} port {} of {} is in use: `ss -lnp{} sport = :{}` says by whom; choose another, or 0 for any that is free",
        local.port(), local.ip(), &scheme[..1], local.port()
    )]
    InUse {
        /// `udp` or `tcp`.
        scheme: &'static str,
        /// The place that was asked for.
        local: SocketAddr,
    },
    /// The address is no interface's.
    #[error("no interface has the address {0}: `ip -brief address` lists those that there are")]
    NotHere(std::net::IpAddr),
    /// No socket can be there.
    #[error("no socket can be at {local}: {why}")]
    NoPlace {
        /// The place that was asked for.
        local: SocketAddr,
        /// Why, and what to write instead.
        why: &'static str,
    },
    /// The system has no IPv6, or no IPv4.
    #[error(
        "this system does not speak the protocol of {0}: `sysctl net.ipv6.conf.all.disable_ipv6` must say 0 for IPv6"
    )]
    Family(SocketAddr),
    /// A port that not everybody may have.
    #[error(
        "port {0} needs the right CAP_NET_BIND_SERVICE: take one from 1024 on, or \
         `sudo setcap cap_net_bind_service+ep PROGRAM`"
    )]
    Port(u16),
    /// Busy polling that not everybody may ask for.
    #[error(
        "busy-poll={0} needs the right CAP_NET_ADMIN: `sudo setcap cap_net_admin+ep PROGRAM`, or \
         `sudo sysctl -w net.core.busy_read={0}` for everybody"
    )]
    BusyPoll(u128),
    /// The kernel gives smaller buffers than were asked for.
    #[error(
        "buffer={asked}: the system gives {got} bytes at most; `sudo sysctl -w net.core.{limit}={asked}` allows it"
    )]
    Buffer {
        /// As asked for.
        asked: usize,
        /// What there was.
        got: usize,
        /// The setting that limits it.
        limit: &'static str,
    },
    /// Buffers that are too small.
    #[error("buffer={asked}: {least} bytes are the least here; without it the buffers are as suits most")]
    SmallBuffer {
        /// As asked for.
        asked: usize,
        /// What there must be.
        least: usize,
    },
    /// A longest frame that cannot be.
    #[error("frame={asked}: the longest frame is {least} to {most} bytes here{}", if *by_mtu { ", or more with `fragment`" } else { "" })]
    Frame {
        /// As asked for.
        asked: usize,
        /// The shortest that can be the longest: set-up must fit.
        least: usize,
        /// The longest.
        most: usize,
        /// What limits it is the MTU of the interface.
        by_mtu: bool,
    },
    /// A pool that was given has shorter frames than were asked for.
    #[error("the frames of the pool have room for {room} bytes, and frames of {frame} are asked for")]
    PoolRoom {
        /// Bytes of a frame of the pool.
        room: usize,
        /// Bytes that are needed.
        frame: usize,
    },
    /// A pool that there is no memory for.
    #[error("{0}: lower `frames=`, or `frame=`")]
    Memory(#[from] NoMemory),
    /// A pool that cannot be.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// A peer that cannot be introduced.
    #[error(transparent)]
    Peer(#[from] IntroduceError),
    /// The process, or the system, has as many open files as it may have.
    #[error(
        "{doing}: {error}: each socket takes a few descriptors; `ulimit -n` says how many a process may have, and raises it"
    )]
    Descriptors {
        /// What it was asked to do.
        doing: &'static str,
        /// What it says.
        error: io::Error,
    },
    /// The system refused, for a reason of its own.
    #[error("{doing}: {error}")]
    System {
        /// What it was asked to do.
        doing: &'static str,
        /// What it says.
        error: io::Error,
    },
}

/// For `map_err`: what was tried.
pub(crate) fn doing(doing: &'static str) -> impl Fn(io::Error) -> OpenError {
    move |error| OpenError::refused(doing, error)
}

impl OpenError {
    /// What the system means when it does not do something that has no error of its own.
    pub(crate) fn refused(doing: &'static str, error: io::Error) -> OpenError {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMFILE | Errno::ENFILE) => OpenError::Descriptors { doing, error },
            _ => OpenError::System { doing, error },
        }
    }

    /// Whether a socket can be there, as far as the address says: some that cannot be used can be bound.
    pub(crate) fn check_place(local: SocketAddr) -> Result<(), OpenError> {
        place::misfit(local).map_or(Ok(()), |why| Err(OpenError::NoPlace { local, why }))
    }

    /// What the system means when it does not let us bind.
    pub(crate) fn bind(scheme: &'static str, local: SocketAddr, error: io::Error) -> OpenError {
        match error.kind() {
            ErrorKind::AddrInUse => OpenError::InUse { scheme, local },
            ErrorKind::AddrNotAvailable => OpenError::NotHere(local.ip()),
            ErrorKind::PermissionDenied => OpenError::Port(local.port()),
            _ if error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) => OpenError::Family(local),
            _ => OpenError::refused("bind a socket", error),
        }
    }
}
