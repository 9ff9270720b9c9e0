//! Messages to the kernel by netlink, and their attributes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// Bytes of a `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;

pub(crate) fn open(protocol: SockProtocol) -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?)
}

/// The answer to a request.
pub(crate) fn ask(netlink: &impl AsFd, request: &[u8]) -> io::Result<Vec<u8>> {
    let fd = netlink.as_fd().as_raw_fd();
    send(fd, request, MsgFlags::empty())?;
    let mut answer = vec![0; 4096];
    let length = recv(fd, &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// An attribute of a request, padded.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = ((4 + value.len()) as u16).to_ne_bytes();
    let mut bytes = [&length[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of the attribute of this kind.
pub(crate) fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    loop {
        let (length, found) = (rest.get(..2)?, rest.get(2..4)?);
        let length = usize::from(u16::from_ne_bytes(length.try_into().ok()?));
        let value = rest.get(4..length)?;
        if u16::from_ne_bytes(found.try_into().ok()?) & libc::NLA_TYPE_MASK as u16 == kind {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}
