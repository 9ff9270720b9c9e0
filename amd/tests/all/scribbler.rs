//! A program that attaches by hand, and writes anything into the memory that it shares with the daemon.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use am_ring::lane::LaneLayout;
use am_vnic::protocol::{FromDaemon, Hello, VERSION};
use am_wire::EtherType;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, send, socket_with,
};

/// Attaches by hand. Returns its socket, the memory that it shares with the daemon, and the number of its sessions.
pub(crate) fn attach_by_hand(socket: &Path) -> (OwnedFd, OwnedFd, u32) {
    let own = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&own, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    let (max_frame, ethertype) = (Some(MAX_FRAME as u32), EtherType::DEFAULT);
    let hello = Hello { version: VERSION, max_frame, ethertype, secret: None, can_use_queue: true };
    send(&own, &hello.to_bytes(), SendFlags::empty()).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut ancillary, mut bytes) = (RecvAncillaryBuffer::new(&mut space), [0; 512]);
    let received = recvmsg(&own, &mut [io::IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::empty()).unwrap();
    let packet = FromDaemon::from_bytes(&bytes[..received.bytes]);
    let Some(FromDaemon::Welcome(welcome)) = packet else { panic!("{packet:?}") };
    let memory = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    (own, memory.unwrap(), welcome.session)
}

/// Where a region has its lanes, and each of them its words: which session its sender offers, which one its receiver has accepted,
/// how far it has read; and the first record's length.
const LANES: u64 = 256;
const OFFERED: u64 = 0;
const ACCEPTED: u64 = 256;
const RELEASED: u64 = 260;
const RECORDS: u64 = 384;

const MAX_FRAME: usize = 1514;

/// The places of a region where most depends on each bit: the sleepers' words and the heads of the two lanes.
fn likely_place(random: &mut SmallRng, length: u64) -> u64 {
    let lane = (length - LANES) / 2;
    match random.random_range(0..4) {
        0 => random.random_range(0..LANES),
        1 => LANES + random.random_range(0..512),
        2 => LANES + lane / 64 * 64 + random.random_range(0..512),
        // Lengths stand at the start of cache lines.
        _ => random.random_range(0..length - 64) / 64 * 64,
    }
}

/// Random bytes, numbers that are nearly right and numbers that run wild, anywhere in the memory.
fn scribble(memory: &OwnedFd, random: &mut SmallRng, length: u64) {
    let place = likely_place(random, length).min(length - 64);
    let mut bytes = [0; 64];
    let count = random.random_range(1..=bytes.len());
    match random.random_range(0..4) {
        0 => random.fill_bytes(&mut bytes),
        1 => bytes[..4].copy_from_slice(&random.random_range(0..2000_u32).to_le_bytes()),
        2 => bytes[..4].copy_from_slice(&(u32::MAX - random.random_range(0..64)).to_le_bytes()),
        _ => bytes[..4].copy_from_slice(&(1_u32 << 31 | random.random_range(0..2000)).to_le_bytes()),
    }
    rustix::io::pwrite(memory, &bytes[..count], place).unwrap();
}

/// Its port, and how often it had to attach again: it is detached after too many frames that are none.
pub(crate) struct Scribbler {
    socket: std::path::PathBuf,
    port: (OwnedFd, OwnedFd, u32),
    length: u64,
    random: SmallRng,
    scribbles: u64,
    pub(crate) attached: u64,
}

impl Scribbler {
    pub(crate) fn attach(socket: &Path, seed: u64) -> Scribbler {
        let port = attach_by_hand(socket);
        let length = rustix::fs::fstat(&port.1).unwrap().st_size as u64;
        let random = SmallRng::seed_from_u64(seed);
        Scribbler { socket: socket.to_owned(), port, length, random, scribbles: 0, attached: 1 }
    }

    fn word(&self, place: u64) -> u32 {
        let mut bytes = [0; 4];
        rustix::io::pread(&self.port.1, &mut bytes, place).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn set_word(&self, place: u64, word: u32) {
        rustix::io::pwrite(&self.port.1, &word.to_le_bytes(), place).unwrap();
    }

    /// Offer a session and accept the daemon's, as an honest program does, or the daemon would read none of the memory. The first records
    /// have any lengths.
    fn open_lanes(&mut self) {
        let lane =
            LaneLayout::new(LaneLayout::least(MAX_FRAME).unwrap().max(256 * 1024), MAX_FRAME).unwrap().bytes() as u64;
        let mut place = LANES + RECORDS;
        for _ in 0..4 {
            let length = self.random.random_range(0..2000_u32);
            self.set_word(place, length);
            place += u64::from(length + 4).next_multiple_of(64);
        }
        // The numbers of all sessions of a port but for the last byte, which counts them: as `am_ring::lane::Pair` has it.
        let mixed = (self.port.2 ^ 1_u32.rotate_left(16).wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b);
        let session = mixed & !0xff | 0x100 | ((self.word(LANES + OFFERED) & 0xff) % 0xff + 1);
        self.set_word(LANES + OFFERED, session);
        self.set_word(LANES + lane + RELEASED, 0);
        self.set_word(LANES + lane + ACCEPTED, self.word(LANES + lane + OFFERED));
    }

    /// Write once.
    pub(crate) fn scribble(&mut self) {
        if self.scribbles % 16 == 0 {
            self.open_lanes();
        }
        scribble(&self.port.1, &mut self.random, self.length);
        self.scribbles += 1;
        // Wakes the daemon with any bytes; learns so whether it was detached.
        if self.scribbles % 64 == 0
            && send(&self.port.0, &[7; 9], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).err()
                == Some(rustix::io::Errno::PIPE)
        {
            self.port = attach_by_hand(&self.socket);
            self.attached += 1;
        }
    }
}
