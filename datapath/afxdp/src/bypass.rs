//! Detects a driver that no longer runs the XDP program. Some drivers lose the program when they reset their NIC
//! (vmxnet3 of Linux 7.3, as tried, after a link that went down, or another MTU). Then our frames reach the kernel's
//! stack. The program would never have passed them, so frames that arrive at a packet socket prove that it does not
//! run.
//!
//! Packet sockets for our EtherTypes cost nothing until a frame arrives. But the kernel removes an 802.1Q tag before it
//! delivers a frame to such a socket, so frames of a VLAN look like ours. So these sockets only raise a suspicion. From
//! then on one other socket replaces them. Its filter sees each frame of the interface, before the tag is removed.
//!
//! The sockets also send heartbeats, while the node's thread does not poll.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use am_ring::own::{Own, high};
use am_transport::OutOfBand;
use am_wire::frame::ETHERNET_HEADER;
use am_wire::{Address, EtherType};
use libc::{c_int, sock_filter, sock_fprog, sockaddr_ll, socklen_t};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socket};

use crate::addresses::NodeAddresses;
use crate::sockopt;

/// The interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Fewer frames may have passed while the program was being attached.
const MIN_FRAMES: usize = 3;

/// The most frames that are read at once.
const MAX_READS: usize = 256;

/// Packet sockets that receive this node's frames when they bypass the program.
pub(crate) struct Bypass {
    sockets: Arc<PacketSockets>,
    /// Whether the sockets receive untagged frames only.
    is_untagged_only: bool,
    interface: u32,
    ethertype: EtherType,
    next_check: Instant,
    /// Set if attaching the program again failed: why it does not run.
    pub(crate) error: Option<String>,
}

/// Packet sockets of an interface. Another thread sends heartbeats with them: the rings belong to the node's thread.
#[derive(Debug)]
struct PacketSockets(Mutex<Vec<Own>>);

impl PacketSockets {
    fn lock(&self) -> MutexGuard<'_, Vec<Own>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutOfBand for PacketSockets {
    fn broadcast(&self, frame: &[u8]) -> bool {
        let sockets = self.lock();
        // It is none of ours if the program has closed it by its number.
        let socket = sockets.first().and_then(Own::get);
        socket.is_some_and(|socket| send(socket.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT).is_ok())
    }
}

impl Bypass {
    /// # Errors
    /// The process has too many files open, or may not listen.
    pub(crate) fn listen(interface: u32, ethertype: EtherType) -> io::Result<Bypass> {
        Ok(Bypass {
            sockets: Arc::new(PacketSockets(Mutex::new(listen(interface, ethertype)?))),
            is_untagged_only: false,
            interface,
            ethertype,
            next_check: Instant::now() + CHECK_INTERVAL,
            error: None,
        })
    }

    /// Listen on the interface that replaces one that is gone. If that fails, a bypass is not detected.
    pub(crate) fn move_to(&mut self, interface: u32) {
        (self.interface, self.is_untagged_only) = (interface, false);
        *self.sockets.lock() = listen(interface, self.ethertype).unwrap_or_default();
    }

    /// The interface, for heartbeats.
    pub(crate) fn out_of_band(&self) -> Arc<dyn OutOfBand> {
        self.sockets.clone()
    }

    /// Whether frames have bypassed the program since the last call. Makes a few system calls, now and then.
    pub(crate) fn is_detected(&mut self, own: &NodeAddresses) -> bool {
        let now = Instant::now();
        if now < self.next_check {
            return false;
        }
        self.next_check = now + CHECK_INTERVAL;
        let is_suspected = self.count_own_frames(own) >= MIN_FRAMES;
        if is_suspected && !self.is_untagged_only {
            // If that fails, it is tried again at the next suspicion.
            if let Ok(socket) = listen_to_untagged(self.interface, self.ethertype) {
                (*self.sockets.lock(), self.is_untagged_only) = (vec![socket], true);
            }
            return false;
        }
        is_suspected
    }

    /// Read the sockets, and count the frames to this node, or to one behind it.
    fn count_own_frames(&self, own: &NodeAddresses) -> usize {
        let is_own = |socket: &Own| {
            let mut to = [0; 6];
            recv(socket.as_raw_fd(), &mut to, MsgFlags::MSG_DONTWAIT).is_ok().then(|| own.contains(Address(to)))
        };
        let sockets = self.sockets.lock();
        let all = sockets.iter().flat_map(|socket| (0..MAX_READS).map_while(move |_| is_own(socket)));
        all.filter(|is_own| *is_own).count()
    }

    /// The program was attached again: discard earlier frames.
    pub(crate) fn reset(&mut self, own: &NodeAddresses, result: Result<(), String>) {
        self.count_own_frames(own);
        self.error = result.err();
        self.next_check = Instant::now() + CHECK_INTERVAL;
    }
}

impl Drop for Bypass {
    /// Another thread may hold the way for heartbeats for longer.
    fn drop(&mut self) {
        self.sockets.lock().clear();
    }
}

/// Open a socket for each EtherType.
fn listen(interface: u32, ethertype: EtherType) -> io::Result<Vec<Own>> {
    let both = [ethertype.hidden(), ethertype.plain()].into_iter();
    both.map(|ethertype| bind(packet_socket()?, interface, ethertype)).collect()
}

fn packet_socket() -> io::Result<Own> {
    Ok(high(socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?).into())
}

/// Open a socket for both EtherTypes that receives a frame before the kernel removes its tag.
fn listen_to_untagged(interface: u32, ethertype: EtherType) -> io::Result<Own> {
    let socket = packet_socket()?;
    let mut filter = untagged(ethertype);
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // The kernel copies the filter during the call. Until it is bound, the socket receives nothing.
    sockopt::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)?;
    sockopt::set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    bind(socket, interface, libc::ETH_P_ALL as u16)
}

/// A filter for frames without a tag and of one of the EtherTypes.
fn untagged(ethertype: EtherType) -> [sock_filter; 7] {
    const TAG: i32 = libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT;
    let op = |code: u32, k: u32, jt, jf| sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_ABS;
    let is = |value: u32, jt, jf| op(libc::BPF_JMP | libc::BPF_JEQ, value, jt, jf);
    let keep = |bytes: usize| op(libc::BPF_RET, bytes as u32, 0, 0);
    [
        op(load | libc::BPF_W, TAG as u32, 0, 0),
        is(0, 0, 4),
        op(load | libc::BPF_H, ETHERNET_HEADER as u32 - 2, 0, 0),
        is(ethertype.hidden().into(), 1, 0),
        is(ethertype.plain().into(), 0, 1),
        keep(ETHERNET_HEADER),
        keep(0),
    ]
}

fn bind(socket: Own, interface: u32, protocol: u16) -> io::Result<Own> {
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
