//! Socket options, buffers and pools that UDP and TCP have in common.

use std::io;
use std::net::SocketAddr;

use am_ring::{Layout, Pool};
use am_transport::memory;
use am_wire::control::Control;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::errors::doing;
use crate::{SocketOpenError, SocketOptions};

/// The least value of the longest frame: set-up frames must fit.
pub(crate) const MIN_FRAME: usize = Control::MAX_FRAME;

/// Each frame starts on its own pair of cache lines.
const ALIGN: usize = 128;

/// The default number of frames in a pool.
const DEFAULT_FRAMES: std::ops::RangeInclusive<usize> = 512..=4096;

/// Make a socket that never blocks.
pub(crate) fn socket(local: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if local.is_ipv6() {
        // So that each address is written in one way only.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// The kernel's least buffer (`SOCK_MIN_SNDBUF`).
pub(crate) const MIN_BUFFER: usize = 2304;

/// Check that the buffers are not too small.
pub(crate) fn check_buffer(asked: Option<usize>, least: usize) -> Result<(), SocketOpenError> {
    match asked.filter(|asked| *asked < least) {
        Some(asked) => Err(SocketOpenError::SmallBuffer { asked, least }),
        None => Ok(()),
    }
}

/// Set buffers of this size. Fails if the system allows only less.
pub(crate) fn set_buffers(socket: &Socket, bytes: usize) -> Result<(), SocketOpenError> {
    enlarge(socket, bytes);
    // The kernel doubles the size, for its own use.
    let failed = doing("ask for a buffer's size");
    let got = [socket.recv_buffer_size().map_err(&failed)? / 2, socket.send_buffer_size().map_err(&failed)? / 2];
    let sizes = [("rmem_max", got[0]), ("wmem_max", got[1])];
    match sizes.into_iter().find(|(_, got)| *got < bytes) {
        Some((limit, got)) => Err(SocketOpenError::Buffer { asked: bytes, got, limit }),
        None => Ok(()),
    }
}

/// Set buffers of this size, or as large as the system allows.
pub(crate) fn enlarge(socket: &Socket, bytes: usize) {
    // A size beyond the limit needs CAP_NET_ADMIN.
    if setsockopt(socket, sockopt::RcvBufForce, &bytes).is_err() {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    if setsockopt(socket, sockopt::SndBufForce, &bytes).is_err() {
        let _ = socket.set_send_buffer_size(bytes);
    }
}

/// Enable busy polling: the kernel polls the NIC's queue when nothing has arrived.
pub(crate) fn busy_poll(socket: &Socket, options: &SocketOptions) -> Result<(), SocketOpenError> {
    let Some(time) = options.busy_poll else { return Ok(()) };
    let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX >> 1);
    socket.set_busy_poll(micros).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => SocketOpenError::BusyPoll(time.as_micros()),
        _ => SocketOpenError::system_error("set busy polling", error),
    })
}

/// A pool for frames of this length: the given one if its frames are long enough, or a new one.
pub(crate) fn pool(given: Option<Pool>, options: &SocketOptions, max_frame: usize) -> Result<Pool, SocketOpenError> {
    if let Some(pool) = given {
        let room = pool.layout().room();
        return if room < max_frame { Err(SocketOpenError::PoolRoom { room, frame: max_frame }) } else { Ok(pool) };
    }
    let stride = max_frame.next_multiple_of(ALIGN);
    let usual = (SocketOptions::MEMORY / stride).clamp(*DEFAULT_FRAMES.start(), *DEFAULT_FRAMES.end());
    let frames = options.frames.unwrap_or(usual);
    memory::check(frames, stride)?;
    Ok(Pool::heap(Layout { frames, stride, headroom: 0 })?)
}

/// Check the longest frame.
pub(crate) fn check_frame(asked: usize, most: usize, by_mtu: bool) -> Result<usize, SocketOpenError> {
    if (MIN_FRAME..=most).contains(&asked) {
        Ok(asked)
    } else {
        Err(SocketOpenError::Frame { asked, least: MIN_FRAME, most, by_mtu })
    }
}
