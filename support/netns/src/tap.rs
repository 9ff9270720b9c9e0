use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, SockaddrLike, SockaddrStorage, bind, socket,
};

use crate::{HostError, Interface};

/// A wire tap: sends whole Ethernet frames from an interface, and receives those that reach the kernel's stack there.
/// Frames that an XDP program takes do not: tap the other end for them.
#[derive(Debug)]
pub struct Tap {
    socket: File,
}

impl Tap {
    /// Tap an interface.
    ///
    /// # Errors
    /// [`HostError::NotPermitted`] without root.
    pub fn new(interface: &Interface) -> Result<Tap, HostError> {
        let open = || {
            let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
            bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &link_address(interface.name())?)?;
            io::Result::Ok(Tap { socket: File::from(socket) })
        };
        interface.host.enter(open)?.map_err(|error| HostError::system(format!("tapping {interface}"), error))
    }

    /// Send a frame, from its destination address on.
    ///
    /// # Errors
    /// The system's, for example for a frame longer than the MTU.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        (&self.socket).write_all(frame)
    }

    /// The next frame, cut to the buffer; `None` after the time-out.
    ///
    /// # Errors
    /// The system's, for example when the interface goes down.
    pub fn receive<'a>(&self, buffer: &'a mut [u8], patience: Duration) -> io::Result<Option<&'a mut [u8]>> {
        let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        if poll(&mut ready, timeout)? == 0 {
            return Ok(None);
        }
        let length = (&self.socket).read(buffer)?;
        Ok(Some(&mut buffer[..length]))
    }
}

/// The address to bind a packet socket to.
fn link_address(name: &str) -> io::Result<LinkAddr> {
    let link = |address: Option<SockaddrStorage>| address.as_ref().and_then(SockaddrStorage::as_link_addr).copied();
    let mut own = getifaddrs()?.filter(|entry| entry.interface_name == name);
    own.find_map(|entry| link(entry.address).filter(|a| a.family() == Some(AddressFamily::Packet)))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}
