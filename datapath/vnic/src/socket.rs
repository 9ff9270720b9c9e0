//! The socket between program and daemon. It carries packets in order, and descriptors with the daemon's first answer.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use am_ring::own::{Own, high};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, recv, recvmsg, send,
    sendmsg, shutdown, socket_with,
};

use crate::protocol::{MAX_PACKET, WAKE_PACKET};

/// The result of looking for a packet.
#[derive(Debug)]
pub(crate) enum Received<T> {
    Packet(T),
    /// No packet has arrived.
    Nothing,
    /// The other end has closed the socket, or has ended.
    Closed,
}

/// Connect to the daemon's socket. No later call on it blocks.
pub(crate) fn connect_to(path: &Path) -> io::Result<Own> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(Own::new(high(socket)))
}

/// Send a packet if there is room for it.
pub(crate) fn send_packet(socket: &OwnedFd, packet: &[u8]) -> io::Result<()> {
    send(socket, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Wake the other end.
#[cold]
pub(crate) fn wake(socket: &OwnedFd) {
    // If there is no room, the other end has packets to read, so it does not sleep. If it has ended, the next read reports it.
    let _ = send_packet(socket, WAKE_PACKET);
}

/// End the connection, even if another process has a copy of the socket.
pub(crate) fn end(socket: &Own) {
    // Fails only if the connection has ended.
    let _ = socket.get().map(|socket| shutdown(socket, Shutdown::Both));
}

/// Send a packet with at most [`MAX_DESCRIPTORS`].
pub(crate) fn send_with_descriptors(socket: &OwnedFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    let packet = [io::IoSlice::new(packet)];
    sendmsg(socket, &packet, &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receive a packet. Descriptors that come with it are closed by the kernel.
pub(crate) fn receive<'a>(socket: &OwnedFd, into: &'a mut [u8; MAX_PACKET]) -> Received<&'a [u8]> {
    match recv(socket, &mut into[..], RecvFlags::DONTWAIT) {
        Ok((length @ 1.., _)) => Received::Packet(&into[..length.min(MAX_PACKET)]),
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Ok(_) | Err(_) => Received::Closed,
    }
}

/// The most descriptors of a packet: a region's, and those of a queue's socket and memory.
pub(crate) const MAX_DESCRIPTORS: usize = 3;

/// Receive a packet and the descriptors that came with it.
///
/// # Errors
/// This process is out of descriptors. The kernel then drops those of the packet, and only sets a flag.
pub(crate) fn receive_with_descriptors(socket: &OwnedFd) -> io::Result<Received<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MAX_PACKET];
    let mut buffers = [io::IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let length = match recvmsg(socket, &mut buffers, &mut ancillary, flags) {
        Ok(message) if message.flags.contains(ReturnFlags::CTRUNC) => return Err(Errno::MFILE.into()),
        Ok(message) if message.bytes > 0 => message.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
        Ok(_) | Err(_) => return Ok(Received::Closed),
    };
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(Received::Packet((bytes[..length].to_vec(), descriptors.flatten().collect())))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// More than there is room for, however that is rounded.
    const MANY: usize = 20;

    /// As for a process whose limit of open files is reached: the packet comes without a descriptor.
    #[test]
    fn a_descriptor_that_is_left_out_is_an_error() {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MANY))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let many = [one.as_fd(); MANY];
        ancillary.push(SendAncillaryMessage::ScmRights(&many));
        sendmsg(&one, &[io::IoSlice::new(b"w")], &mut ancillary, SendFlags::empty()).unwrap();
        let why = receive_with_descriptors(&other).err().unwrap();
        assert_eq!(Errno::from_io_error(&why), Some(Errno::MFILE));
        send_with_descriptors(&one, b"w", &[one.as_fd(); MAX_DESCRIPTORS]).unwrap();
        assert!(
            matches!(receive_with_descriptors(&other), Ok(Received::Packet((_, all))) if all.len() == MAX_DESCRIPTORS)
        );
    }
}
