//! Bytes as a script of what a program does to the memory that it shares with the daemon, while two honest programs talk. Shared by the
//! tests and the fuzz target.
//!
//! Whatever it writes, each honest frame arrives, unchanged and once, after a few turns. Frames from the program have its own address as
//! their source.

use am_daemon::{Daemon, DaemonOptions, PAUSE};
use am_ring::Frame;
use am_transport::{Transport, TransportExt};
use am_vnic::VnicOptions;
use am_wire::control::{Accept, Control, FlowParameters, NodeId};
use am_wire::{Address, Buffer, Flow, Framing, Kind, Route, Seq};

use super::by_hand::{ACCEPTED, Asking, ByHand, LANES, MAX_FRAME, OFFERED, RECORDS, RELEASED, TAIL};
use super::intruder::{Intruder, header, name};

/// A daemon, and two programs of which one has granted the other a flow.
pub struct World {
    daemon: Daemon,
    place: tempfile::TempDir,
    alice: Intruder,
    bob: Intruder,
    flow: Flow,
    /// Honest messages so far.
    sent: u64,
}

impl World {
    pub fn new() -> World {
        let place = tempfile::tempdir().expect("a directory");
        let mut daemon = Daemon::open(DaemonOptions::new(place.path().join("amd.sock"))).expect("a daemon");
        let options = VnicOptions { frames: 256, ..VnicOptions::new(place.path().join("amd.sock")) };
        let [mut alice, mut bob] = ["alice", "bob"].map(|name| {
            let attaching = am_vnic::begin(&options).expect("it listens");
            (0..2).for_each(|_| daemon.attend());
            let mut port = Intruder { port: attaching.finish().expect("a port") };
            port.introduce(name);
            daemon.turn();
            port
        });
        let flow = Flow::new(7).expect("a flow");
        let offer = FlowParameters {
            flow,
            nonce: 5,
            first: [Seq(0); 2],
            credits: [8; 2],
            max_frame: MAX_FRAME as u32,
            max_message: 0,
        };
        let accept = bob.control(alice.address(), bob.address(), &Control::Accept(Accept { id: 1, offer }));
        bob.send(&accept);
        bob.port.steer(flow, true);
        daemon.turn();
        while alice.port.receive(64, &mut |_| ()) > 0 {}
        World { daemon, place, alice, bob, flow, sent: 0 }
    }

    /// A program that has just attached.
    fn attach(&mut self) -> ByHand {
        let asking = Asking::new(&self.place.path().join("amd.sock"));
        // It accepts the connection, and then reads from it.
        (0..2).for_each(|_| self.daemon.attend());
        asking.finish()
    }

    /// An honest message, which arrives while the hostile program has its say.
    fn honest(&mut self, hostile: Address) {
        let payload = self.sent.to_be_bytes();
        let (from, to) = (self.alice.address(), self.bob.address());
        let frame = self.alice.frame(to, from, Framing::Plain, &header(Kind::Request, self.flow), &payload);
        self.sent += 1;
        assert!(self.alice.port.send(to, &frame), "its own lane has room");
        self.alice.port.flush();
        let mut arrived = 0;
        for _ in 0..2 * (PAUSE + 1) {
            self.daemon.turn();
            self.bob.port.receive(64, &mut |got| arrived += u64::from(is_same(&got, &frame, hostile)));
        }
        assert_eq!(arrived, 1, "message {} came so often", self.sent);
        while self.alice.port.receive(64, &mut |_| ()) > 0 {}
    }

    /// Play a script.
    pub fn play(&mut self, script: &[u8]) {
        let port = self.attach();
        let hostile = port.address();
        let mut script = Script { bytes: script, port: &port, place: LANES + RECORDS };
        for _ in 0..MAX_STEPS {
            let Some(step) = script.byte() else { break };
            match step % 8 {
                0 => script.open_lanes(),
                1 => script.write_anywhere(),
                2 => script.write_word(),
                3 => script.write_record(self.bob.address()),
                4 => _ = self.daemon.turn(),
                5 => self.honest(hostile),
                6 => _ = port.wake(),
                _ => self.daemon.attend(),
            }
        }
        self.honest(hostile);
        drop(port);
        // The daemon reads a bounded number of its packets at once, and then sees that it has gone.
        (0..MAX_STEPS).for_each(|_| self.daemon.attend());
        self.honest(hostile);
        let ports = self.daemon.list().ports;
        assert_eq!(ports.len(), 2, "its port is free");
        assert!(ports.iter().all(|port| port.refused.is_empty()), "{ports:?}");
    }
}

/// Whether it is the honest frame. Otherwise it is of the hostile program, and says so.
fn is_same(got: &Frame, frame: &Frame, hostile: Address) -> bool {
    if got.bytes() == frame.bytes() {
        return true;
    }
    let route = Route::of(got.bytes(), am_wire::EtherType::DEFAULT).expect("what passes has a route");
    let its = [hostile, am_wire::frame::split_source(route.flow, hostile)];
    assert!(its.contains(&route.source), "{:?} is of neither", got.bytes());
    false
}

const MAX_STEPS: usize = 200;

/// What is left of a script.
struct Script<'a> {
    bytes: &'a [u8],
    port: &'a ByHand,
    /// Where the next record goes.
    place: u64,
}

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn number(&mut self) -> u64 {
        (0..3).fold(0, |number, _| number << 8 | u64::from(self.byte().unwrap_or(0)))
    }

    fn open_lanes(&mut self) {
        self.port.open_lanes();
        self.place = LANES + RECORDS;
    }

    fn write(&self, place: u64, bytes: &[u8]) {
        let length = (self.port.length - place.min(self.port.length)).min(bytes.len() as u64);
        self.port.write(place, &bytes[..length as usize]);
    }

    fn write_anywhere(&mut self) {
        let place = self.number() % self.port.length;
        let count = usize::from(self.byte().unwrap_or(0) % 64).min(self.bytes.len());
        let (bytes, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        self.write(place, bytes);
    }

    /// A word on which much depends gets a number that is nearly right, or runs wild.
    fn write_word(&mut self) {
        let (which, number) = (self.byte().unwrap_or(0), self.number() as u32);
        let lane = LANES + if which & 1 == 0 { 0 } else { self.port.lane };
        let words = [OFFERED, TAIL, ACCEPTED, RELEASED, RECORDS];
        let place = match which / 2 % 8 {
            5 => 0,
            6 => 128,
            7 => self.place,
            word => lane + words[usize::from(word)],
        };
        let word = match number % 4 {
            0 => number / 4,
            1 => u32::MAX - number / 4 % 64,
            2 => record_word(number / 4 % 2000) | 1,
            _ => record_word(number / 4 % 2000),
        };
        self.port.set_word(place, word);
    }

    /// A record with a frame that is well-formed before some of its bytes are changed.
    fn write_record(&mut self, to: Address) {
        let kind = self.byte().unwrap_or(0);
        let mut bytes = frame(self.port.address(), to, kind);
        for _ in 0..kind / 64 {
            let (at, change) = (self.byte().unwrap_or(0), self.byte().unwrap_or(0));
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= change;
        }
        // As `am_ring::lane` has it: the word, and the bytes behind it or behind its line.
        let behind = if bytes.len() <= 508 { 4 } else { 64 };
        self.write(self.place + behind, &bytes);
        let next = self.place + (behind + bytes.len() as u64).next_multiple_of(64);
        self.write(next, &[0; 4]);
        self.write(self.place, &record_word(bytes.len() as u32).to_le_bytes());
        self.place = if next + 4096 < LANES + self.port.lane { next } else { LANES + RECORDS };
    }
}

/// The word of a record of this length in the first lap, as `am_ring::lane` has it.
fn record_word(length: u32) -> u32 {
    length << 1
}

/// A frame that the hostile program may send, or one that it may not.
fn frame(from: Address, to: Address, kind: u8) -> Vec<u8> {
    use am_wire::frame::{LinkAddresses, body, emit, length};
    let mut control = [0; Control::MAX_BYTES];
    let beacon = |text: &str| {
        let (framings, max_frame) = (am_wire::Framings::ALL, MAX_FRAME as u32);
        let (node, incarnation, name) = (NodeId::of(&name(text)), am_wire::control::Incarnation(9), name(text));
        Control::Beacon(am_wire::control::Beacon {
            node,
            incarnation,
            name,
            address: from,
            framings,
            max_frame,
            purpose: am_wire::control::Purpose::Ask,
        })
    };
    let (to, count) = match kind % 4 {
        0 => (Address::BROADCAST, beacon("mallory").emit(&mut control)),
        1 => (Address::BROADCAST, beacon("alice").emit(&mut control)),
        _ => (to, 20),
    };
    let head = match kind % 4 {
        0 | 1 => header(Kind::Control, Flow::NODE),
        _ => header(Kind::Request, Flow::new(7).expect("a flow")),
    };
    let mut bytes = vec![0; length(Framing::Plain, count)];
    body(&mut bytes, Framing::Plain, count).expect("there is space").copy_from_slice(&control[..count]);
    let link = LinkAddresses { to, from, ethertype: am_wire::EtherType::DEFAULT };
    emit(&mut bytes, Framing::Plain, &link, &head, count, None).expect("there is space");
    bytes
}
