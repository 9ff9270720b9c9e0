//! Hostile programs beside honest ones: whatever they do, the others' messages all arrive.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use am_transport::Transport;
use am_vnic::protocol::{FromDaemon, Hello, VERSION};
use am_wire::control::{Control, NodeId, Probe, Step};
use am_wire::{Address, EtherType};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, send, socket_with,
};

use crate::common::{Place, Running, is_honest, list, port, until};
use crate::intruder::{Intruder, name};
use crate::pings::{Server, amd, echo};

/// Attaches by hand. Returns its socket and the memory that it shares with the daemon.
fn attach_by_hand(socket: &Path) -> (OwnedFd, OwnedFd) {
    let own = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&own, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    let (max_frame, ethertype) = (Some(1514), EtherType::DEFAULT);
    let hello = Hello { version: VERSION, max_frame, ethertype, secret: None, can_use_queue: true };
    send(&own, &hello.to_bytes(), SendFlags::empty()).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut ancillary, mut bytes) = (RecvAncillaryBuffer::new(&mut space), [0; 512]);
    let received = recvmsg(&own, &mut [io::IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::empty()).unwrap();
    let packet = FromDaemon::from_bytes(&bytes[..received.bytes]);
    assert!(matches!(packet, Some(FromDaemon::Welcome(_))), "{packet:?}");
    let memory = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    (own, memory.unwrap())
}

/// The places of a region where most depends on each bit: the sleepers' words and the heads of the two lanes.
fn likely_place(random: &mut SmallRng, length: u64) -> u64 {
    const HEADS: u64 = 256;
    let lane = (length - HEADS) / 2;
    match random.random_range(0..4) {
        0 => random.random_range(0..HEADS),
        1 => HEADS + random.random_range(0..512),
        2 => HEADS + lane / 64 * 64 + random.random_range(0..512),
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

/// Does something hostile on a thread, again and again, until it is dropped.
struct Hostile {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Hostile {
    /// `begin` runs on the thread, where its port stays.
    fn start<A: FnMut()>(begin: impl FnOnce() -> A + Send + 'static) -> Hostile {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut act, mut acts) = (begin(), 0);
            while !stopped.load(Relaxed) {
                act();
                acts += 1;
            }
            acts
        });
        Hostile { stop, thread: Some(thread) }
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// What an honest pair has done: every message arrived, and none was refused.
fn honest_pair(place: &Place, rounds: u64) {
    let server = Server::start("beta", amd(&place.socket()));
    for round in 0..rounds {
        echo(&format!("alpha{round}"), &amd(&place.socket()), "beta", 5_000);
    }
    let beta = port(&place.socket(), "beta").unwrap();
    is_honest(&beta);
    drop(server);
}

#[test]
fn one_that_scribbles_over_its_memory() {
    const SCRIBBLES: u64 = 1_000_000;
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let mut random = SmallRng::seed_from_u64(7);
    let socket = place.socket();
    let mut port = attach_by_hand(&socket);
    let mut attached = 1;
    let hostile = std::thread::spawn(move || {
        let length = rustix::fs::fstat(&port.1).unwrap().st_size as u64;
        for scribbles in 0..SCRIBBLES {
            scribble(&port.1, &mut random, length);
            // Wakes the daemon with any bytes; learns so whether it was detached.
            if scribbles % 64 == 0
                && send(&port.0, &[7; 9], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).err()
                    == Some(rustix::io::Errno::PIPE)
            {
                port = attach_by_hand(&socket);
                attached += 1;
            }
        }
        attached
    });
    honest_pair(&place, 4);
    println!("attached {} times", hostile.join().unwrap());
    honest_pair(&place, 1);
    until("its port is free", || list(&place.socket()).ports.is_empty());
}

#[test]
fn one_that_floods_a_node_that_never_asked() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let server = Server::start("beta", amd(&place.socket()));
    until("the server has its name", || port(&place.socket(), "beta").is_some());
    let to: Address = port(&place.socket(), "beta").unwrap().address.parse().unwrap();
    let socket = place.socket();
    let hostile = std::thread::spawn(move || {
        let mut mallory = Intruder::attach(&socket);
        mallory.introduce("mallory");
        let node = NodeId::of(&name("mallory"));
        let probe = mallory.control(to, mallory.address(), &Control::Probe(Probe { id: 1, node, step: Step::True }));
        for _ in 0..300_000 {
            mallory.send(&probe);
        }
    });
    echo("alpha", &amd(&place.socket()), "beta", 20_000);
    hostile.join().unwrap();
    echo("gamma", &amd(&place.socket()), "beta", 1_000);
    drop(server);
}

#[test]
fn one_that_stops_reading() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let mut deaf = Intruder::attach(&place.socket());
    deaf.introduce("deaf");
    until("it has its name", || port(&place.socket(), "deaf").is_some());
    // It gets every broadcast, and reads none of them.
    let socket = place.socket();
    let hostile = Hostile::start(move || {
        let mut loud = Intruder::attach(&socket);
        loud.introduce("loud");
        let name = name("loud");
        let beacon = loud.beacon(NodeId::of(&name), name, loud.address());
        let frame = loud.control(Address::BROADCAST, loud.address(), &beacon);
        move || loud.send(&frame)
    });
    until("its lane is full", || port(&place.socket(), "deaf").unwrap().dropped > 100);
    honest_pair(&place, 2);
    assert!(hostile.end() > 100);
    until("what was in its lane is still there", || deaf.port.receive(64, &mut |_| ()) > 0);
}

#[test]
fn visitors_that_say_nothing_or_nonsense() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let visit = |packet: &[u8]| {
        let own = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&own, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
        if !packet.is_empty() {
            send(&own, packet, SendFlags::NOSIGNAL).unwrap();
        }
        own
    };
    let silent: Vec<_> = (0..40).map(|_| visit(&[])).collect();
    let mut random = SmallRng::seed_from_u64(3);
    for _ in 0..2_000 {
        let mut packet = vec![0; random.random_range(1..600)];
        random.fill_bytes(&mut packet);
        if random.random() {
            packet.splice(0..4.min(packet.len()), *b"amd\x01");
        }
        drop(visit(&packet));
    }
    honest_pair(&place, 1);
    drop(silent);
}
