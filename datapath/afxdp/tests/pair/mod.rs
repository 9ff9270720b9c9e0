//! Two hosts, a cable, and a transport at each end, all on the calling thread.

#![allow(dead_code)] // each test uses a part

use std::time::{Duration, Instant};

use am_afxdp::{Xdp, XdpOpenError, XdpOptions};
use am_bpf::AttachError;
use am_netns::{Host, Interface, VethOptions, veth};
use am_ring::Frame;
use am_transport::{Transport, TransportExt};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};
use nix::sched::{CloneFlags, setns};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The flow that both ends let in.
pub(crate) fn flow() -> Flow {
    Flow::new(7).unwrap()
}

/// Two hosts and the cable between them.
pub(crate) struct Cable {
    pub(crate) hosts: [Host; 2],
    pub(crate) ends: [Interface; 2],
}

impl Cable {
    /// Its ends are both called `am0`.
    pub(crate) fn new(options: &VethOptions<'_>) -> Cable {
        let host = |name| Host::new(name).unwrap_or_else(|error| panic!("{error}"));
        let hosts = [host("near"), host("far")];
        let (near, far) = veth(&hosts[0], "am0", &hosts[1], "am0", options).unwrap_or_else(|error| panic!("{error}"));
        Cable { hosts, ends: [near, far] }
    }

    /// Open an end on this thread, which is on that end's host from then on.
    pub(crate) fn open(&self, end: usize, options: &XdpOptions) -> Result<Xdp, XdpOpenError> {
        setns(&self.hosts[end], CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
        am_afxdp::open(options)
    }

    /// As [`open`](Cable::open), for an end that must open. Children that other tests start hold the program and the socket of a closed one a moment longer.
    pub(crate) fn opens(&self, end: usize, options: &XdpOptions) -> Xdp {
        let mut open = None;
        eventually("it opens", || {
            match self.open(end, options) {
                Err(
                    XdpOpenError::Busy { .. }
                    | XdpOpenError::Attach(AttachError::Occupied { .. } | AttachError::Sibling { .. }),
                ) => {}
                result => open = Some(result.unwrap_or_else(|error| panic!("{error}"))),
            }
            open.is_some()
        });
        open.expect("it is open")
    }

    /// The command `ip`, on an end's host.
    pub(crate) fn ip(&self, end: usize, arguments: &[&str]) {
        // Where Debian keeps it for root alone.
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let run = || std::process::Command::new("ip").env("PATH", path).args(arguments).status().unwrap();
        assert!(self.hosts[end].enter(run).unwrap().success(), "ip {arguments:?}");
    }

    /// Both ends, with the flow open.
    pub(crate) fn pair(&self, options: &XdpOptions) -> Pair {
        let mut ends = [0, 1].map(|end| self.opens(end, options));
        ends.iter_mut().for_each(|end| end.steer(flow(), true));
        let [near, far] = ends;
        Pair { near, far }
    }
}

/// A transport at each end of a cable.
pub(crate) struct Pair {
    pub(crate) near: Xdp,
    pub(crate) far: Xdp,
}

/// A cable of the default kind, with default transports.
pub(crate) fn plain() -> (Cable, Pair) {
    let cable = Cable::new(&VethOptions::default());
    let pair = cable.pair(&XdpOptions::new("am0"));
    (cable, pair)
}

impl Pair {
    /// Send numbered messages from near to far; returns how many there was room for.
    pub(crate) fn send(&mut self, numbers: impl Iterator<Item = u32>) -> usize {
        let to = self.far.caps().address;
        let near = &mut self.near;
        let room = |number| message(near, to, number).is_some_and(|frame| near.send(to, &frame));
        let sent = numbers.map(room).take_while(|&taken| taken).count();
        self.near.flush();
        sent
    }

    /// The numbers that are there to be received at the far end.
    pub(crate) fn receive(&mut self) -> Vec<u32> {
        let mut numbers = Vec::new();
        while self.far.receive(64, &mut |frame| numbers.push(number(&frame))) > 0 {}
        self.far.flush();
        numbers
    }

    /// Messages lost between near and far, wherever that may be: a busy machine
    /// may lose some. (In copy mode a frame lost for want of a blank is counted
    /// as dropped too.)
    pub(crate) fn lost(&self) -> u64 {
        let far = ["xsk_rx_dropped", "xsk_rx_ring_full"];
        counter(&self.near, "tx_dropped") + far.map(|name| counter(&self.far, name)).iter().sum::<u64>()
    }

    /// Send so many numbered messages, up to `burst` at once; returns those that
    /// arrived once each of the others is counted as lost.
    pub(crate) fn deliver(&mut self, count: u32, burst: usize) -> Vec<u32> {
        let (mut sent, mut received) = (0, Vec::new());
        while sent < count {
            sent += self.send((sent..count).take(burst)) as u32;
            received.extend(self.receive());
        }
        eventually("each message has arrived or is counted as lost", || {
            received.extend(self.receive());
            self.near.flush();
            received.len() as u64 + self.lost() == u64::from(count)
        });
        assert!(received.is_sorted_by(|a, b| a < b), "each once, in order");
        assert!(received.len() as u32 > count / 2, "most arrive");
        received
    }

    /// Send until one arrives.
    pub(crate) fn assert_alive(&mut self, number: u32) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.send(std::iter::once(number));
            if self.receive().contains(&number) {
                return;
            }
            assert!(Instant::now() < deadline, "nothing arrives any more");
        }
    }
}

/// A message of the flow, as an endpoint would send it.
pub(crate) fn message(from: &Xdp, to: Address, number: u32) -> Option<Frame> {
    let mut frame = from.caps().pool.take()?;
    let header = Header { kind: Kind::Request, flow: flow(), nonce: 0, handler: 1, words: 0, seq: 0 };
    let link = LinkAddresses { to, from: from.caps().address, ethertype: EtherType::DEFAULT };
    let space = frame.space().unwrap();
    frame::body(space, Framing::Bare, 4).unwrap().copy_from_slice(&number.to_be_bytes());
    let length = frame::emit(space, Framing::Bare, &link, &header, 4, None).unwrap();
    frame.set_len(length);
    Some(frame)
}

/// The number in a message.
pub(crate) fn number(frame: &Frame) -> u32 {
    let parsed = frame::parse(frame.bytes(), EtherType::DEFAULT).expect("steering lets nothing else through");
    u32::from_be_bytes(parsed.payload.try_into().unwrap())
}

/// A counter of a transport.
pub(crate) fn counter(xdp: &Xdp, name: &str) -> u64 {
    let mut found = None;
    xdp.counters(&mut |counter, value| {
        if counter == name {
            assert_eq!(found.replace(value), None, "two counters are called {name}");
        }
    });
    found.unwrap_or_else(|| panic!("no counter is called {name}"))
}

/// Frames that are neither in the pool nor in the fill ring.
pub(crate) fn frames_out(xdp: &Xdp, options: &XdpOptions) -> usize {
    options.frames as usize - counter(xdp, "rx_blanks") as usize - xdp.caps().pool.available()
}

pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
