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

/// A wire tap: sends whole Ethernet frames from an interface, and sees those
/// that the kernel's stack gets there. What an XDP program takes away, the
/// stack never gets: tap the other end.
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
        interface.host().enter(open)?.map_err(|error| HostError::system(format!("tapping {interface}"), error))
    }

    /// Send a frame, from its destination address on.
    ///
    /// # Errors
    /// The system's, such as a frame that is longer than the interface's MTU allows.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        (&self.socket).write_all(frame)
    }

    /// The next frame, cut to the buffer; `None` where none comes in time.
    ///
    /// # Errors
    /// The system's, such as an interface that went down.
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
