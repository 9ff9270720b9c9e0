//! Whether the process has descriptors left. Libraries that get none may report another error than that.

use std::io;
use std::os::unix::net::UnixDatagram;

use nix::net::if_::if_nametoindex;

/// Check that the process has this many descriptors left.
///
/// # Errors
/// The system's, as it is.
pub(crate) fn check(count: usize) -> io::Result<()> {
    let first = UnixDatagram::unbound()?;
    (1..count).map(|_| first.try_clone()).collect::<io::Result<Vec<_>>>().map(drop)
}

/// The index of an interface in the calling thread's network namespace.
///
/// # Errors
/// The system's. The C library asks by a socket, and says `No such file or directory` if it gets none.
pub fn interface_index(interface: &str) -> io::Result<u32> {
    check(1)?;
    Ok(if_nametoindex(interface)?)
}
