//! Receives datagrams: many with one system call, and with GRO many in one message.

use std::array;
use std::fs;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use quinn_udp::{RecvMeta, UdpSocketState};

use crate::setup::socket_address;

/// The most messages of one call.
const MAX_MESSAGES: usize = 16;

/// Bytes of the longest message that GRO makes.
const MAX_GRO_BYTES: usize = 1 << 16;

/// Room for the kernel's control data of a message: the length of the datagrams that it merged, one number.
#[repr(align(8))]
struct Control([u8; 64]);

/// Received datagrams that are not delivered yet.
///
/// Each poll is one system call. It asks for few messages while few arrive, so the empty poll of a waiting node is as cheap
/// as possible. When a poll gets all messages that it asked for, the next one asks for twice as many.
pub(super) struct ReceiveStage {
    state: UdpSocketState,
    memory: Vec<u8>,
    /// Bytes for each message.
    room: usize,
    metas: [RecvMeta; MAX_MESSAGES],
    control: Control,
    /// The number of messages in `memory`.
    filled: usize,
    /// The next datagram to deliver: the message that it is in, and its offset there.
    message: usize,
    offset: usize,
    /// The number of messages to ask for next.
    next_count: usize,
    pub(super) counters: ReceiveCounters,
}

#[derive(Debug, Default)]
pub(super) struct ReceiveCounters {
    pub(super) calls: u64,
    /// Messages of several datagrams.
    pub(super) merged: u64,
    pub(super) errors: u64,
}

impl ReceiveStage {
    /// For datagrams up to this length.
    pub(super) fn new(state: UdpSocketState, gro: bool, longest: usize) -> ReceiveStage {
        // With one more byte, a datagram that is too long is recognized by its length.
        let room = if gro { MAX_GRO_BYTES } else { longest + 1 };
        let memory = vec![0; room * MAX_MESSAGES];
        let metas = array::from_fn(|_| RecvMeta::default());
        let (control, count) = (Control([0; 64]), ReceiveCounters::default());
        ReceiveStage {
            state,
            memory,
            room,
            metas,
            control,
            filled: 0,
            message: 0,
            offset: 0,
            next_count: 1,
            counters: count,
        }
    }

    /// Whether all received datagrams are delivered.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.message == self.filled
    }

    /// Receive more. All earlier datagrams must be delivered.
    ///
    /// # Errors
    /// The socket is no longer valid.
    #[inline]
    pub(super) fn poll(&mut self, socket: &UdpSocket) -> Result<(), io::Error> {
        (self.filled, self.message, self.offset) = (0, 0, 0);
        self.counters.calls += 1;
        // After a single datagram usually none follows, so the next poll asks in the cheapest way again.
        let asked = if self.next_count > 2 { self.next_count } else { 1 };
        let looked = if asked == 1 { self.receive_one(socket) } else { self.receive_many(socket) };
        match looked {
            Ok(filled) => self.filled = filled,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => self.failed(error, asked == 1)?,
        }
        self.next_count =
            if self.filled == asked { (2 * self.next_count).min(MAX_MESSAGES) } else { self.filled.max(1) };
        Ok(())
    }

    fn receive_many(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let mut rooms = self.memory.chunks_exact_mut(self.room);
        let mut buffers: [_; MAX_MESSAGES] = array::from_fn(|_| IoSliceMut::new(rooms.next().unwrap_or_default()));
        self.state.recv(socket.into(), &mut buffers[..self.next_count], &mut self.metas)
    }

    /// Ask for one message. This needs less set-up, here and in the kernel, than asking for several.
    #[inline]
    fn receive_one(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let mut buffer = [IoSliceMut::new(&mut self.memory[..self.room])];
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        let message = recvmsg::<SockaddrStorage>(fd, &mut buffer, Some(&mut self.control.0), flags)?;
        let Some(addr) = message.address.as_ref().and_then(socket_address) else { return Ok(0) };
        let segments = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::UdpGroSegments(bytes) => usize::try_from(bytes).ok(),
            _ => None,
        });
        let (meta, len) = (&mut self.metas[0], message.bytes);
        (meta.addr, meta.len, meta.stride) = (addr, len, segments.unwrap_or(len));
        Ok(1)
    }

    /// Return an error that lasts. Errors about datagrams sent earlier, and a lack of memory, are temporary. A filter of system calls
    /// may refuse only the call for several messages, so its refusal counts only for a single one.
    #[cold]
    fn failed(&mut self, error: io::Error, is_single: bool) -> Result<(), io::Error> {
        use nix::errno::Errno;
        self.counters.errors += 1;
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EBADF | Errno::ENOTSOCK | Errno::EOPNOTSUPP) => Err(error),
            Some(Errno::EPERM | Errno::ENOSYS) if is_single => Err(error),
            _ => Ok(()),
        }
    }

    /// The next datagram and its sender. It stays the next one until [`ReceiveStage::consume`].
    #[inline]
    pub(super) fn peek(&self) -> Option<(&[u8], SocketAddr)> {
        let meta = self.metas[..self.filled].get(self.message)?;
        let start = self.message * self.room + self.offset;
        let len = meta.stride.min(meta.len - self.offset);
        Some((&self.memory[start..start + len], meta.addr))
    }

    /// Remove the datagram that [`ReceiveStage::peek`] returned.
    #[inline]
    pub(super) fn consume(&mut self) {
        let meta = &self.metas[self.message];
        self.offset += meta.stride;
        if self.offset >= meta.len {
            self.counters.merged += (meta.stride < meta.len) as u64;
            (self.message, self.offset) = (self.message + 1, 0);
        }
    }
}

/// Datagrams that the kernel dropped for lack of room, from its table of sockets.
pub(super) fn dropped_by_kernel(socket: &UdpSocket, is_ipv4: bool) -> u64 {
    let table = fs::read_to_string(if is_ipv4 { "/proc/thread-self/net/udp" } else { "/proc/thread-self/net/udp6" });
    let socket = fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).map(|socket| socket.ino().to_string());
    let (Ok(table), Ok(inode)) = (table, socket) else { return 0 };
    let line = table.lines().find(|line| line.split_whitespace().nth(9) == Some(&inode));
    line.and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}
