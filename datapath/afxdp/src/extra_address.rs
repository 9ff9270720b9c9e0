//! An address that an interface accepts beside its own.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use am_wire::Address;
use libc::{c_int, packet_mreq};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::sockopt;

/// The interface accepts frames to this address until the value is dropped or the process ends. Where the driver cannot
/// filter by several addresses, the kernel makes it accept all frames.
#[derive(Debug)]
pub(crate) struct ExtraAddress(#[expect(dead_code, reason = "the kernel forgets the address with the socket")] OwnedFd);

impl ExtraAddress {
    pub(crate) fn add(address: Address, interface: u32) -> io::Result<ExtraAddress> {
        // Without a protocol the socket receives no frames.
        let socket = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        let mut wanted = packet_mreq {
            mr_ifindex: interface as c_int,
            mr_type: libc::PACKET_MR_UNICAST as u16,
            mr_alen: 6,
            mr_address: [0; 8],
        };
        wanted.mr_address[..6].copy_from_slice(&address.0);
        sockopt::set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, wanted)?;
        Ok(ExtraAddress(socket))
    }
}
