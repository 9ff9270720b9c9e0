//! A program that attaches by hand, and so has the memory that it shares with the daemon as bytes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use am_ring::lane::LaneLayout;
use am_vnic::protocol::{FromDaemon, Hello, VERSION, Welcome};
use am_wire::EtherType;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recv, recvmsg, send, socket_with,
};

/// Where a region has its lanes, and each of them its words: which session its sender offers, how far it has written, which session its
/// receiver has accepted, how far it has read; and the first record's word.
pub const LANES: u64 = 256;
pub const OFFERED: u64 = 0;
pub const TAIL: u64 = 128;
pub const ACCEPTED: u64 = 256;
pub const RELEASED: u64 = 260;
pub const RECORDS: u64 = 384;

pub const MAX_FRAME: usize = 1514;

/// A program that has asked to attach.
pub struct Asking(OwnedFd);

/// A program that is attached.
pub struct ByHand {
    socket: OwnedFd,
    memory: OwnedFd,
    welcome: Welcome,
    /// Bytes of the memory, and of each of the two lanes in it.
    pub length: u64,
    pub lane: u64,
}

impl Asking {
    pub fn new(socket: &Path) -> Asking {
        let own = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&own, &SocketAddrUnix::new(socket).unwrap()).unwrap();
        let (max_frame, ethertype) = (Some(MAX_FRAME as u32), EtherType::DEFAULT);
        let hello = Hello { version: VERSION, max_frame, ethertype, secret: None, can_use_queue: true, name: None };
        send(&own, &hello.to_bytes(), SendFlags::empty()).unwrap();
        Asking(own)
    }

    /// Whether the daemon has answered.
    #[allow(dead_code, reason = "most programs of tests wait")]
    pub fn is_answered(&self) -> bool {
        recv(&self.0, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK).is_ok()
    }

    /// Wait for the daemon's answer.
    pub fn finish(self) -> ByHand {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let (mut ancillary, mut bytes) = (RecvAncillaryBuffer::new(&mut space), [0; 512]);
        let mut into = [io::IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.0, &mut into, &mut ancillary, RecvFlags::empty()).unwrap().bytes;
        let packet = FromDaemon::from_bytes(&bytes[..received]);
        let Some(FromDaemon::Welcome(welcome)) = packet else { panic!("{packet:?}") };
        let memory = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let memory = memory.unwrap();
        let length = rustix::fs::fstat(&memory).unwrap().st_size as u64;
        let lane = LaneLayout::for_frames(MAX_FRAME).unwrap().bytes();
        ByHand { socket: self.0, memory, welcome, length, lane: lane as u64 }
    }
}

impl ByHand {
    pub fn address(&self) -> am_wire::Address {
        self.welcome.address
    }

    pub fn write(&self, place: u64, bytes: &[u8]) {
        rustix::io::pwrite(&self.memory, bytes, place).unwrap();
    }

    pub fn set_word(&self, place: u64, word: u32) {
        self.write(place, &word.to_le_bytes());
    }

    fn word(&self, place: u64) -> u32 {
        let mut bytes = [0; 4];
        rustix::io::pread(&self.memory, &mut bytes, place).unwrap();
        u32::from_le_bytes(bytes)
    }

    /// Offer a session and accept the daemon's, as an honest program does, or the daemon would read none of the memory.
    pub fn open_lanes(&self) {
        // The numbers of all sessions of a port but for the last byte, which counts them: as `am_ring::lane::Pair` has it.
        let mixed = (self.welcome.session ^ 1_u32.rotate_left(16).wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b);
        let session = mixed & !0xff | 0x100 | ((self.word(LANES + OFFERED) & 0xff) % 0xff + 1);
        self.set_word(LANES + OFFERED, session);
        let from_daemon = LANES + self.lane;
        self.set_word(from_daemon + RELEASED, 0);
        self.set_word(from_daemon + ACCEPTED, self.word(from_daemon + OFFERED));
    }

    /// End the attachment, and keep the memory.
    #[allow(dead_code, reason = "not all programs of tests leave")]
    pub fn leave(self) -> OwnedFd {
        self.memory
    }

    /// How many packets of the daemon wait.
    #[allow(dead_code, reason = "not all programs of tests are woken")]
    pub fn packets(&self) -> usize {
        let next =
            |_: &usize| recv(&self.socket, &mut [0; 512], RecvFlags::DONTWAIT).is_ok_and(|(length, _)| length > 0);
        (0..).take_while(next).count()
    }

    /// Wake the daemon with a packet of any bytes. False if it has detached this program.
    pub fn wake(&self) -> bool {
        let sent = send(&self.socket, &[7; 9], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        sent.err() != Some(rustix::io::Errno::PIPE)
    }
}
