//! Dials connections, and sets the options of each.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nix::errno::Errno;
use socket2::{Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::{SocketOptions, setup};

/// A connection ends when bytes are not acknowledged for this long, or the peer does not answer for this long.
const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// Start to connect.
pub(super) fn dial(options: &SocketOptions, local: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = setup::socket(local, Type::STREAM, Protocol::TCP)?;
    if let Some(bytes) = options.buffer {
        setup::enlarge(&socket, bytes);
    }
    if !local.ip().is_unspecified() {
        // The peer should see the address at which we listen.
        socket.bind(&SocketAddr::new(local.ip(), 0).into())?;
    }
    let is_under_way = |error: &io::Error| error.raw_os_error() == Some(Errno::EINPROGRESS as i32);
    socket.connect(&to.into()).or_else(|error| if is_under_way(&error) { Ok(()) } else { Err(error) })?;
    let stream = Socket::into(socket);
    configure(&stream, options)?;
    Ok(stream)
}

/// Set the options of a dialed or accepted connection.
pub(super) fn configure(stream: &TcpStream, options: &SocketOptions) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(DEAD_PEER_TIMEOUT))?;
    let alive = TcpKeepalive::new().with_time(DEAD_PEER_TIMEOUT).with_interval(DEAD_PEER_TIMEOUT / 4);
    socket.set_tcp_keepalive(&alive)?;
    if let Some(time) = options.busy_poll {
        // It was allowed when the listening socket was set up.
        let _ = socket.set_busy_poll(time.as_micros() as u32);
    }
    Ok(())
}
