//! Whether the host at the other end of a connection answers. Its kernel acknowledges bytes even while the peer's program does
//! not read, or is stopped.
#![allow(unsafe_code, reason = "one system call that no library wraps")]

use std::mem;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long data may be unacknowledged: a kernel's longest delay of an acknowledgement, and one lost segment.
const MAX_SILENCE: Duration = Duration::from_millis(1000);
/// The most unanswered probes of a closed window: one under way, and one lost.
const MAX_PROBES: u8 = 2;

/// Whether the other end acknowledges what was sent. A closed connection does not.
pub(super) fn answers(stream: &TcpStream) -> bool {
    let Some(info) = info(stream) else { return false };
    let since_ack = Duration::from_millis(info.tcpi_last_ack_recv.into());
    let is_acknowledged = info.tcpi_unacked == 0 || since_ack < MAX_SILENCE;
    const ESTABLISHED: u8 = 1;
    info.tcpi_state == ESTABLISHED && is_acknowledged && info.tcpi_probes <= MAX_PROBES
}

fn info(stream: &TcpStream) -> Option<libc::tcp_info> {
    // SAFETY: the kernel's plain data, for which zeros are valid.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&info) as libc::socklen_t;
    // SAFETY: the descriptor is open while `stream` is borrowed. The kernel writes at most `length` bytes to `info`, and that is
    // its size. A shorter answer of an old kernel leaves the rest zero.
    let failed = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &mut length)
    };
    (failed == 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_peer_that_does_not_read_answers_and_one_that_has_closed_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut stream, &[0; 1 << 16]).is_ok() {}
        std::thread::sleep(2 * MAX_SILENCE);
        assert!(answers(&stream), "its window is closed, and its kernel answers");
        drop(peer);
        while answers(&stream) {
            std::thread::yield_now();
        }
    }
}
