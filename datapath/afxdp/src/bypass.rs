//! Whether the driver still runs the XDP program. Some forget it when they set their NIC up again (vmxnet3 of Linux 7.3, as
//! tried: after a link that went down, or another MTU). Then frames of ours come to the kernel's stack, which the program
//! would never have let through: whoever listens for them there knows.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use libc::{c_int, sockaddr_ll, socklen_t};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socket};
use wire::{Address, EtherType};

/// Looked at so often.
const PAUSE: Duration = Duration::from_millis(250);

/// Fewer of them may have come while the program was being attached.
const SOME: usize = 3;

/// So many are read at once.
const MOST: usize = 256;

/// Listens to the stack for frames that are this node's.
pub(crate) struct Bypass {
    sockets: Vec<OwnedFd>,
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
        Ok(Bypass { sockets, ethertype, own, next: Instant::now() + PAUSE, trouble: None })
    }

    /// On another interface, which has come for one that is gone. Where that fails, nothing is heard of it.
    pub(crate) fn follow(&mut self, interface: u32) {
        self.sockets = listen(interface, self.ethertype).unwrap_or_default();
    }

    /// Whether frames came past the program since this was last asked; a few system calls, now and then.
    pub(crate) fn is_used(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + PAUSE;
        self.read() >= SOME
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
    let address = sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ethertype.to_be(),
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
