//! Bare frames with no protocol, by AF_XDP or DPDK: what the device can do.
//!
//! A data frame is an Ethernet header with both true addresses and the payload.
//! A note differs in one bit of its source address, so that neither costs the
//! other a byte.

use std::collections::VecDeque;
use std::io;

use afxdp::Interface;
use wire::frame::{ETHERNET, SMALLEST};
use wire::{Address, EtherType};

use crate::error::Error;
use crate::measure::{Arrived, BATCH, Note, Port};
use crate::plan::{Place, XdpArg};
use crate::via::Via;

/// At most half of what the receiver has room for, so that a moment of absence loses nothing.
const WINDOW: u64 = 512;
/// Frames of the network's first EtherType, as ours have in `bare`.
const ETHERTYPE: EtherType = EtherType::DEFAULT;
/// The bit of the source address that marks notes: "locally administered", so
/// that a switch does not take one for another station's address.
const MARK: u8 = 2;

/// What moves bare frames.
pub(crate) trait Device {
    /// Have [`send`](Device::send) send this frame from now on.
    fn write(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Send it so often; returns how often there was room.
    fn send(&mut self, count: usize) -> io::Result<usize>;

    /// The same, after `fill` had the bytes of each.
    fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> io::Result<usize>;

    /// Look at arrived frames, at most so many; those for which `each` says so go back as they are then.
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8]) -> bool) -> io::Result<usize>;

    /// Send this frame once; `false` where there is no room now.
    fn send_note(&mut self, frame: &[u8]) -> io::Result<bool>;

    /// The longest frame, from the destination address on.
    fn max_frame(&self) -> usize;

    /// Frames that may be on their way to here while nobody looks.
    fn depth(&self) -> usize;

    /// Where its XDP program runs.
    fn xdp(&self) -> Option<&'static str> {
        None
    }
}

/// One side of the via.
pub(crate) struct RawPort<D = afxdp::raw::Raw> {
    raw: D,
    mode: String,
    largest: usize,
    size: usize,
    echo: bool,
    /// Heard and not yet handed over.
    heard: VecDeque<Note>,
    out: [u8; ETHERNET],
    /// Source addresses of the other side's data and notes.
    data: [u8; 6],
    notes: [u8; 6],
}

impl RawPort {
    /// Between two places; the program on this side's interface is there as
    /// long as this is.
    pub(crate) fn open(interface: &Interface, xdp: XdpArg, peer: &Place) -> Result<RawPort, Error> {
        let raw = afxdp::raw::Raw::open(&interface.name, xdp.attach())?;
        let mode = raw.mode().to_string();
        Ok(RawPort::new(raw, mode, interface.address, peer))
    }
}

impl<D: Device> RawPort<D> {
    /// By this device, which has this address, to the peer.
    pub(crate) fn new(raw: D, mode: String, own: Address, peer: &Place) -> RawPort<D> {
        RawPort {
            mode,
            largest: peer.carries((raw.max_frame() - ETHERNET) as u32),
            raw,
            size: 0,
            echo: false,
            heard: VecDeque::with_capacity(BATCH),
            out: ethernet(peer.link(), own),
            data: peer.address,
            notes: marked(peer.address),
        }
    }

    /// As [`send`](Port::send), after `fill` had the payload of each.
    ///
    /// # Errors
    /// The via cannot be used any more.
    #[inline]
    pub(crate) fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<usize, Error> {
        let end = ETHERNET + self.size;
        self.raw.send_each(count, &mut |frame| fill(&mut frame[ETHERNET..end])).map_err(failed)
    }
}

impl Device for afxdp::raw::Raw {
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.write(frame)
    }

    #[inline]
    fn send(&mut self, count: usize) -> io::Result<usize> {
        self.send(count)
    }

    #[inline]
    fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        self.send_each(count, fill)
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8]) -> bool) -> io::Result<usize> {
        self.receive(budget, each)
    }

    fn send_note(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.send_note(frame)
    }

    fn max_frame(&self) -> usize {
        self.max_frame()
    }

    fn depth(&self) -> usize {
        self.depth()
    }

    fn xdp(&self) -> Option<&'static str> {
        Some(self.mode().attach.name())
    }
}

fn ethernet(to: Address, from: Address) -> [u8; ETHERNET] {
    let mut header = [0; ETHERNET];
    header[..6].copy_from_slice(&to.0);
    header[6..12].copy_from_slice(&from.0);
    header[12..].copy_from_slice(&ETHERTYPE.hidden().to_be_bytes());
    header
}

fn marked(mut address: [u8; 6]) -> [u8; 6] {
    address[0] ^= MARK;
    address
}

fn failed(source: std::io::Error) -> Error {
    Error::System { doing: "moving bare frames", source }
}

/// Turn a frame round: its sender is its receiver now.
#[inline]
fn turn(frame: &mut [u8]) {
    if let Some(addresses) = frame.first_chunk_mut::<12>() {
        let (to, from) = addresses.split_at_mut(6);
        to.swap_with_slice(from);
    }
}

impl<D: Device> Port for RawPort<D> {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn xdp(&self) -> Option<&'static str> {
        self.raw.xdp()
    }

    fn largest(&self) -> usize {
        self.largest
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        if size > self.largest {
            return Err(Error::TooLarge { via: Via::Raw, size, most: self.largest });
        }
        self.size = size;
        let mut frame = vec![0; (ETHERNET + size).max(SMALLEST)];
        frame[..ETHERNET].copy_from_slice(&self.out);
        self.raw.write(&frame).map_err(failed)
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        self.raw.send(count).map_err(failed)
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        let (data, notes, echo) = (self.data, self.notes, self.echo);
        self.raw
            .receive(budget, &mut |frame| {
                if frame[6..12] == data {
                    arrived.messages += 1;
                    if echo {
                        turn(frame);
                    }
                    return echo;
                }
                if frame[6..12] == notes {
                    self.heard.extend(Note::from_bytes(&frame[ETHERNET..]));
                }
                false
            })
            .map_err(failed)?;
        arrived.note = self.heard.pop_front();
        arrived.bytes = arrived.messages * self.size as u64;
        Ok(arrived)
    }

    fn tell(&mut self, note: Note) -> Result<(), Error> {
        let mut frame = [0; SMALLEST];
        frame[..ETHERNET].copy_from_slice(&self.out);
        frame[6] ^= MARK;
        frame[ETHERNET..][..Note::BYTES].copy_from_slice(&note.to_bytes());
        self.raw.send_note(&frame).map(drop).map_err(failed)
    }

    fn window(&self) -> Option<u64> {
        Some(WINDOW.min(self.raw.depth() as u64 / 2))
    }
}
