//! Closes all connections when the transport is dropped. It waits for slow peers.

use std::io::Read;
use std::net::Shutdown;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_transport::Transport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use super::Tcp;
use super::connection::Connection;

/// How long a slow peer may take to receive the rest: a node's default patience.
const LINGER: Duration = Duration::from_millis(1500);
/// Between two attempts.
const PAUSE: Duration = Duration::from_micros(200);
/// Reads of one connection in a row.
const READS: usize = 64;

/// Bytes that the peer's window has no room for are still on this side. The transport waits for them, because the
/// kernel drops them as soon as the peer sends anything to a closed socket. Meanwhile it reads received bytes: closing
/// a socket with unread bytes resets the connection, and the peer may then miss the last frames.
impl Drop for Tcp {
    fn drop(&mut self) {
        let (mut bytes, begin) = (vec![0; 1 << 14], Instant::now());
        for connection in self.connections.iter().flatten() {
            // With this the socket is writable only when everything written has left.
            _ = SockRef::from(&connection.stream).set_tcp_notsent_lowat(1);
        }
        self.flush();
        while self.connections.iter().flatten().any(|connection| !connection.has_sent_all()) && begin.elapsed() < LINGER
        {
            self.connections.iter().flatten().for_each(|connection| connection.drain(&mut bytes));
            sleep(PAUSE);
            self.flush();
        }
        for connection in self.connections.iter().flatten() {
            _ = connection.stream.shutdown(Shutdown::Write);
            connection.drain(&mut bytes);
        }
    }
}

impl Connection {
    /// Whether everything has left this side, or the peer receives nothing more.
    fn has_sent_all(&self) -> bool {
        if self.is_half_closed || self.hello().is_none() {
            return true;
        }
        let mut socket = [PollFd::new(&self.stream, PollFlags::OUT)];
        let is_over = poll(&mut socket, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err();
        is_over || (self.outbox.is_empty() && !socket[0].revents().is_empty())
    }

    fn drain(&self, bytes: &mut [u8]) {
        (0..READS).any(|_| !matches!((&self.stream).read(bytes), Ok(1..)));
    }
}
