//! The socket between program and daemon: packets, in order, and descriptors with the first answer.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use am_ring::own::{Own, high};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, recvmsg, send, sendmsg, socket_with,
};

use crate::protocol::{MAX_PACKET, WAKE_PACKET};

/// The result of looking for a packet.
#[derive(Debug)]
pub(crate) enum Received<T> {
    Packet(T),
    /// None has arrived.
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

/// Send a packet if there is room for it. A full socket is readable at the other end anyway.
pub(crate) fn send_packet(socket: &OwnedFd, packet: &[u8]) -> io::Result<()> {
    send(socket, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Wake the other end.
#[cold]
pub(crate) fn wake(socket: &OwnedFd) {
    // If there is no room, the other end has packets to read and is awake. If it has ended, the next read says so.
    let _ = send_packet(socket, WAKE_PACKET);
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
pub(crate) fn receive_with_descriptors(socket: &OwnedFd) -> Received<(Vec<u8>, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MAX_PACKET];
    let mut buffers = [io::IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let length = match recvmsg(socket, &mut buffers, &mut ancillary, flags) {
        Ok(message) if message.bytes > 0 => message.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
        Ok(_) | Err(_) => return Received::Closed,
    };
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Received::Packet((bytes[..length].to_vec(), descriptors.flatten().collect()))
}
