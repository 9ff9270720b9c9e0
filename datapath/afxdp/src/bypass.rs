//! Whether the driver still runs the XDP program. Some forget it when they set their NIC up again (vmxnet3 of Linux 7.3, as
//! tried: after a link that went down, or another MTU). Then frames of ours come to the kernel's stack, which the program
//! would never have let through: whoever listens for them there knows.
//!
//! Sockets for our EtherTypes cost nothing until a frame comes. But the kernel takes an 802.1Q tag off before it gives a frame
//! to such a socket, and then does not tell it from one of ours. So their word is a suspicion. From then on one socket
//! listens in their place that the kernel asks about each frame of the interface, before it forgets the tag.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use am_wire::frame::ETHERNET;
use am_wire::{Address, EtherType};
use libc::{c_int, sock_filter, sock_fprog, sockaddr_ll, socklen_t};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socket};

use crate::sockopt;

/// Looked at so often.
const PAUSE: Duration = Duration::from_millis(250);

/// Fewer of them may have come while the program was being attached.
const SOME: usize = 3;

/// So many are read at once.
const MOST: usize = 256;

/// Listens to the stack for frames that are this node's.
pub(crate) struct Bypass {
    sockets: Vec<OwnedFd>,
    /// They hear no frame with a tag.
    is_sure: bool,
    interface: u32,
    ethertype: EtherType,
    own: Address,
    next: Instant,
    /// Why the program does not run, where attaching it again failed.
    pub(crate) trouble: Option<String>,
}

impl Bypass {
    /// # Errors
    /// The process has too many files open, or may not listen.
    pub(crate) fn listen(interface: u32, own: Address, ethertype: EtherType) -> io::Result<Bypass> {
        let sockets = listen(interface, ethertype)?;
        let next = Instant::now() + PAUSE;
        Ok(Bypass { sockets, is_sure: false, interface, ethertype, own, next, trouble: None })
    }

    /// On another interface, which has come for one that is gone. Where that fails, nothing is heard of it.
    pub(crate) fn follow(&mut self, interface: u32) {
        (self.interface, self.is_sure) = (interface, false);
        self.sockets = listen(interface, self.ethertype).unwrap_or_default();
    }

    /// Whether frames came past the program since this was last asked; a few system calls, now and then.
    pub(crate) fn is_used(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + PAUSE;
        let is_suspected = self.read() >= SOME;
        if is_suspected && !self.is_sure {
            self.make_sure();
            return false;
        }
        is_suspected
    }

    /// Listen for untagged frames only. Where that fails, it is tried at the next suspicion.
    fn make_sure(&mut self) {
        if let Ok(socket) = listen_to_untagged(self.interface, self.ethertype) {
            (self.sockets, self.is_sure) = (vec![socket], true);
        }
    }

    /// How many there were.
    fn read(&self) -> usize {
        let own = |socket: &OwnedFd| {
            let mut start = [0; 6];
            recv(socket.as_raw_fd(), &mut start, MsgFlags::MSG_DONTWAIT).is_ok().then_some(start == self.own.0)
        };
        let all = self.sockets.iter().flat_map(|socket| (0..MOST).map_while(move |_| own(socket)));
        all.filter(|is_own| *is_own).count()
    }

    /// The program was attached again: what came before is of no interest.
    pub(crate) fn restart(&mut self, result: Result<(), String>) {
        self.read();
        self.trouble = result.err();
        self.next = Instant::now() + PAUSE;
    }
}

/// A socket for each EtherType.
fn listen(interface: u32, ethertype: EtherType) -> io::Result<Vec<OwnedFd>> {
    [ethertype.hidden(), ethertype.plain()].into_iter().map(|ethertype| listen_to(interface, ethertype)).collect()
}

fn listen_to(interface: u32, ethertype: u16) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket, interface, ethertype)
}

/// A socket for both, which hears a frame before the kernel takes the tag off.
fn listen_to_untagged(interface: u32, ethertype: EtherType) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    let mut filter = untagged(ethertype);
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // The kernel copies the filter while it lives. Until it is bound, the socket hears nothing.
    sockopt::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)?;
    sockopt::set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    bind(socket, interface, libc::ETH_P_ALL as u16)
}

/// Without a tag, and of one of the EtherTypes.
fn untagged(ethertype: EtherType) -> [sock_filter; 7] {
    const TAG: i32 = libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT;
    let op = |code: u32, k: u32, jt, jf| sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_ABS;
    let is = |value: u32, jt, jf| op(libc::BPF_JMP | libc::BPF_JEQ, value, jt, jf);
    let keep = |bytes: usize| op(libc::BPF_RET, bytes as u32, 0, 0);
    [
        op(load | libc::BPF_W, TAG as u32, 0, 0),
        is(0, 0, 4),
        op(load | libc::BPF_H, ETHERNET as u32 - 2, 0, 0),
        is(ethertype.hidden().into(), 1, 0),
        is(ethertype.plain().into(), 0, 1),
        keep(ETHERNET),
        keep(0),
    ]
}

fn bind(socket: OwnedFd, interface: u32, protocol: u16) -> io::Result<OwnedFd> {
    let address = sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer and the length are those of `address`, which lives across the call; the kernel only reads it.
    let result =
        unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<sockaddr_ll>() as socklen_t) };
    if result == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}
