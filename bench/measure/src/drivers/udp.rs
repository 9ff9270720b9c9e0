//! A kernel UDP socket that spins instead of sleeping. A single message costs a `send` and a `recv`. Batches need few
//! system calls ([`udp_batch`](super::udp_batch)), as our messages do over the same kernel.

use std::collections::VecDeque;
use std::io;
use std::io::ErrorKind::{AddrInUse, ConnectionRefused, WouldBlock};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::libc::{EHOSTUNREACH, ENOBUFS};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};

use super::udp_batch::{GroReceiver, GsoSender};
use crate::channel::{Arrived, BATCH, Channel, ChannelInfo, ControlMessage};
use crate::content::Content;
use crate::error::Error;
use crate::plan::{Side, SideInfo};
use crate::size::FrameLayout;

/// The port of a side: the number of our EtherType. If both sides have one address, the second by name has the port
/// below.
const PORT: u16 = 0x88b5;
/// This many datagrams of a full frame fit a receive buffer of the default size.
const WINDOW: u64 = 128;
/// The size to ask for; the kernel may allow less.
const SOCKET_BUFFER: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Udp {
    socket: UdpSocket,
    info: ChannelInfo,
    /// The size of the receive buffer, which holds the kernel's own records too.
    buffer: usize,
    content: Content,
    sender: GsoSender,
    receiver: GroReceiver,
    echo: bool,
    back: Vec<u8>,
    /// Control messages received and not yet handed over.
    controls: VecDeque<ControlMessage>,
}

impl Udp {
    /// A socket between two sides; `mode` describes the wire between them.
    pub(crate) fn open(
        side: Side,
        interface: &str,
        mtu: usize,
        (here, peer): (&SideInfo, &SideInfo),
        mode: String,
    ) -> Result<Udp, Error> {
        let (own, other) = addresses(interface, here, peer)?;
        let socket = UdpSocket::bind(own).and_then(|socket| socket.connect(other).map(|()| socket));
        let socket = socket.map_err(|source| match source.kind() {
            // Another program may have the port, or a second am-bench at this address.
            AddrInUse => Error::Facility(format!(
                "{own} is in use, which a bare UDP socket needs: end the program that has it (`ss -ulpn` names it), or leave raw and udp out"
            )),
            _ => Error::System { doing: "opening a bare UDP socket", source },
        })?;
        socket.set_nonblocking(true).map_err(Error::system("making a UDP socket non-blocking"))?;
        // Ask for larger buffers. The window fits the default ones too.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER));
        let _ = setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER)
            .or_else(|_| setsockopt(&socket, sockopt::SndBuf, &SOCKET_BUFFER));
        // The near side gets control messages and single echoes, which must stay apart.
        GroReceiver::merge(&socket, side == Side::Far);
        let receiver = GroReceiver::new().map_err(Error::system("preparing to receive by UDP"))?;
        let layout = FrameLayout::of_datagrams(mtu, own.is_ipv4());
        let buffer = getsockopt(&socket, sockopt::RcvBuf).unwrap_or(0);
        // Room for one byte more, to detect a datagram that is too long.
        let back = vec![0; layout.most.max(ControlMessage::MARKED_BYTES) + 1];
        let (content, controls) = (Content::default(), VecDeque::with_capacity(BATCH));
        let (info, sender) = (ChannelInfo { layout, ..ChannelInfo::new(mode, 0) }, GsoSender::new());
        Ok(Udp { socket, info, buffer, content, sender, receiver, echo: false, back, controls })
    }

    /// Receive many datagrams with one call.
    fn look(&mut self) -> Result<Arrived, Error> {
        let Udp { socket, content, receiver, controls, .. } = self;
        let mut arrived = Arrived::default();
        settle(receiver.receive(socket, &mut |datagram| match ControlMessage::from_marked(datagram) {
            Some(control) => controls.push_back(control),
            None => content.count(datagram, &mut arrived),
        }))?;
        Ok(Arrived { control: controls.pop_front(), ..arrived })
    }

    /// Receive datagrams one by one, as echoes and single requests are.
    #[inline]
    fn each(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        for _ in 0..budget {
            let Some(length) = settle(self.socket.recv(&mut self.back))? else { break };
            let datagram = &self.back[..length];
            arrived.control = ControlMessage::from_marked(datagram);
            if arrived.control.is_some() {
                break;
            }
            self.content.count(datagram, &mut arrived);
            if self.echo {
                self.datagram(datagram)?;
            }
        }
        Ok(arrived)
    }

    /// Send a datagram; `false` if the buffer is full, or the peer is not there yet.
    fn datagram(&self, bytes: &[u8]) -> Result<bool, Error> {
        settle(self.socket.send(bytes)).map(|sent| sent.is_some())
    }
}

pub(crate) fn addresses(interface: &str, here: &SideInfo, peer: &SideInfo) -> Result<(SocketAddr, SocketAddr), Error> {
    let (own, other) = here.ip_towards(peer).ok_or_else(|| Error::NoIp(here.why_no_ip(peer)))?;
    let scope = if_nametoindex(interface)
        .map_err(|e| Error::System { doing: "finding an interface's number", source: e.into() })?;
    let (mut own, mut other) = (socket_address(own, scope), socket_address(other, scope));
    if own == other {
        let second = if here.name > peer.name { &mut own } else { &mut other };
        second.set_port(PORT - 1);
    }
    Ok((own, other))
}

/// The address of a side's socket, on the interface with this index.
pub(crate) fn socket_address(ip: IpAddr, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(ip) => SocketAddr::V4(SocketAddrV4::new(ip, PORT)),
        IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, PORT, 0, interface)),
    }
}

/// `None` for what is no failure of a spinning socket: nothing to read, no room, or a peer that has not opened its
/// socket yet.
fn settle(result: io::Result<usize>) -> Result<Option<usize>, Error> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(e) if matches!(e.kind(), WouldBlock | ConnectionRefused) => Ok(None),
        Err(e) if matches!(e.raw_os_error(), Some(ENOBUFS | EHOSTUNREACH)) => Ok(None),
        Err(source) => Err(Error::System { doing: "using a UDP socket", source }),
    }
}

impl Channel for Udp {
    fn info(&self) -> &ChannelInfo {
        &self.info
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.content = Content::of(size);
        self.sender.prepare(self.content.bytes(), size <= self.info.layout.largest);
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
        // Echoed datagrams are received one by one.
        GroReceiver::merge(&self.socket, !on);
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        if count == 1 {
            return self.datagram(self.content.bytes()).map(usize::from);
        }
        settle(self.sender.send(&self.socket, count)).map(Option::unwrap_or_default)
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        if let Some(control) = self.controls.pop_front() {
            return Ok(Arrived { control: Some(control), ..Arrived::default() });
        }
        if self.echo || budget == 1 { self.each(budget) } else { self.look() }
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        self.datagram(&control.marked()).map(drop)
    }

    /// Fewer messages if each has several frames: half of the buffer is for the kernel's records, and half of the rest
    /// stays free.
    fn window(&self) -> Option<u64> {
        let size = self.content.bytes().len();
        let fit = (self.buffer / 4 / size.max(1)) as u64;
        Some(if size <= self.info.layout.largest { WINDOW } else { fit.clamp(2, WINDOW) })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    fn place(ip: [u8; 4]) -> SideInfo {
        SideInfo { ipv4: Some(ip.into()), ..SideInfo::default() }
    }

    /// Each test has its own addresses, because the port is always the same.
    pub(crate) fn pair() -> [Udp; 2] {
        static TESTS: AtomicU8 = AtomicU8::new(1);
        let test = TESTS.fetch_add(1, Ordering::Relaxed);
        let (a, b) = (place([127, 34, test, 1]), place([127, 34, test, 2]));
        let open = |side, here, peer| Udp::open(side, "lo", 1500, (here, peer), "kernel".to_owned()).unwrap();
        [open(Side::Near, &a, &b), open(Side::Far, &b, &a)]
    }
    #[test]
    fn a_batch_and_the_note_behind_it_come_with_one_look() {
        let [mut near, mut far] = pair();
        for size in [16, 64, 1472] {
            for channel in [&mut near, &mut far] {
                channel.prepare(size).unwrap();
            }
            assert_eq!(near.send(BATCH).unwrap(), BATCH);
            near.send_control(ControlMessage::End).unwrap();
            near.send_control(ControlMessage::GiveUp).unwrap();
            let (messages, bytes) = (BATCH as u64, (BATCH * size) as u64);
            assert_eq!(
                far.receive(BATCH).unwrap(),
                Arrived { messages, bytes, wrong: 0, control: Some(ControlMessage::End) }
            );
            assert_eq!(
                far.receive(BATCH).unwrap(),
                Arrived { control: Some(ControlMessage::GiveUp), ..Arrived::default() }
            );
        }
    }

    #[test]
    fn nobody_there_yet_is_no_error() {
        let (a, b) = (place([127, 0, 0, 3]), place([127, 0, 0, 4]));
        let mut near = Udp::open(Side::Near, "lo", 1500, (&a, &b), "kernel".to_owned()).unwrap();
        for _ in 0..3 {
            near.send_control(ControlMessage::End).unwrap();
            assert_eq!(near.receive(1).unwrap(), Arrived::default());
        }
    }
}
