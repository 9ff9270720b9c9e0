//! Bare frames without a protocol, over AF_XDP or DPDK: the limit of the device.
//!
//! A data frame is an Ethernet header with both true addresses, and the payload. A control message differs in one bit
//! of its source address, so neither costs the other a byte.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use am_afxdp::Interface;
use am_dpdk::DpdkOptions;
use am_dpdk::raw::Raw as DpdkRaw;
use am_transport::TransportName;
use am_wire::frame::{ETHERNET_HEADER, MIN_FRAME};
use am_wire::{Address, EtherType};

use crate::channel::{Arrived, BATCH, Channel, ChannelInfo, ControlMessage};
use crate::content::{Content, IN_PLACE_BYTE};
use crate::driver::Driver;
use crate::drivers::am::facility;
use crate::drivers::queues::{hybrid, provide};
use crate::error::Error;
use crate::plan::{Batching, Side, SideInfo, XdpArg};
use crate::watch::{PEER_TIMEOUT, Watch};

/// At most half of the receiver's ring, so that a short absence loses nothing.
const WINDOW: u64 = 512;
/// The bit of the source address that marks control messages: "locally administered", so that a switch does not take it
/// for the address of another station.
const MARK: u8 = 2;

pub(crate) trait Device {
    /// Set the frame that [`send`](Device::send) sends.
    fn write(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Send that frame `count` times. Returns how often there was room.
    fn send(&mut self, count: usize) -> io::Result<usize>;

    /// Send it `count` times, after `fill` has written the bytes of each. A frame may be in several pieces: `fill` gets each of them,
    /// and where it begins in the frame.
    fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(usize, &mut [u8])) -> io::Result<usize>;

    /// Receive at most `budget` frames. A frame for which `each` returns `true` is sent back as it is then. A frame may
    /// arrive in several pieces: `each` learns whether more follow, and its answer for the first piece counts.
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8], bool) -> bool) -> io::Result<usize>;

    /// Send this frame once; `false` if there is no room now.
    fn send_control(&mut self, frame: &[u8]) -> io::Result<bool>;
}

pub(crate) struct RawChannel<D = am_afxdp::raw::Raw> {
    raw: D,
    info: ChannelInfo,
    window: u64,
    driver: Driver,
    content: Content,
    echo: bool,
    /// Where the last payload was copied to, if they are copied.
    copy: Vec<u8>,
    /// Present between the pieces of a frame: whether it is data.
    amid: Option<bool>,
    /// Control messages received and not yet handed over.
    controls: VecDeque<ControlMessage>,
    out: [u8; ETHERNET_HEADER],
    /// Source addresses of the other side's data and control messages.
    data: [u8; 6],
    control_source: [u8; 6],
}

impl RawChannel {
    /// Between two sides. The program stays attached to this side's interface as long as this lives.
    pub(crate) fn open(interface: &Interface, xdp: XdpArg, peer: &SideInfo) -> Result<RawChannel, Error> {
        let raw = am_afxdp::raw::Raw::open(&interface.name, xdp.attach())?;
        let info = ChannelInfo::new(raw.mode().to_string(), peer.carried(raw.max_frame()));
        let (info, depth) = (ChannelInfo { xdp: Some(raw.mode().attach.name()), ..info }, raw.depth());
        Ok(RawChannel::new(raw, info, depth, interface.address, peer))
    }
}

impl<D: Device> RawChannel<D> {
    /// Over this device, whose address is `own`, to the peer. So many frames may arrive between two receives.
    pub(crate) fn new(raw: D, info: ChannelInfo, depth: usize, own: Address, peer: &SideInfo) -> RawChannel<D> {
        let mut out = [0; ETHERNET_HEADER];
        out[..6].copy_from_slice(&peer.address);
        out[6..12].copy_from_slice(&own.0);
        out[12..].copy_from_slice(&EtherType::DEFAULT.hidden().to_be_bytes());
        let mut control_source = peer.address;
        control_source[0] ^= MARK;
        RawChannel {
            raw,
            info,
            window: WINDOW.min(depth as u64 / 2),
            driver: Driver::Raw,
            content: Content::default(),
            echo: false,
            copy: vec![],
            amid: None,
            controls: VecDeque::with_capacity(BATCH),
            out,
            data: peer.address,
            control_source,
        }
    }

    /// As `raw`, or as a row of the ablation. Each row adds one thing to the row below it; `raw` is `streamed`.
    pub(crate) fn of(mut self, driver: Driver) -> RawChannel<D> {
        self.info.batching = if driver == Driver::Baseline { Batching::Single } else { Batching::Bursts };
        RawChannel { driver, ..self }
    }

    /// The limit of frames in a turn, in each direction.
    #[inline]
    fn burst(&self, wanted: usize) -> usize {
        if self.driver == Driver::Baseline { wanted.min(1) } else { wanted }
    }
}

impl Device for am_afxdp::raw::Raw {
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.write(frame)
    }

    #[inline]
    fn send(&mut self, count: usize) -> io::Result<usize> {
        self.send(count)
    }

    #[inline]
    fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(usize, &mut [u8])) -> io::Result<usize> {
        self.send_each(count, fill)
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8], bool) -> bool) -> io::Result<usize> {
        self.receive(budget, each)
    }

    fn send_control(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.send_control(frame)
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::System { doing: "moving bare frames", source }
}

#[inline]
fn turn(frame: &mut [u8]) {
    if let Some(addresses) = frame.first_chunk_mut::<12>() {
        let (to, from) = addresses.split_at_mut(6);
        to.swap_with_slice(from);
    }
}

/// The payload's bytes in the piece of a frame that begins there, and what belongs there.
#[inline]
fn part<'a, 'b>(begin: usize, piece: &'a mut [u8], payload: &'b [u8]) -> (&'a mut [u8], &'b [u8]) {
    let header = ETHERNET_HEADER.saturating_sub(begin);
    let from = &payload[begin + header - ETHERNET_HEADER..];
    let length = from.len().min(piece.len() - header);
    (&mut piece[header..header + length], &from[..length])
}

impl<D: Device> Channel for RawChannel<D> {
    fn info(&self) -> &ChannelInfo {
        &self.info
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.content = match self.driver {
            Driver::AllDma => Content::in_place(size),
            Driver::Hybrid => hybrid(size),
            _ => Content::of(size),
        };
        let mut frame = [&self.out[..], self.content.bytes()].concat();
        frame.resize(frame.len().max(MIN_FRAME), 0);
        self.raw.write(&frame).map_err(failed)
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let count = self.burst(count);
        let RawChannel { raw, content, .. } = self;
        let payload = content.bytes();
        let sent = match self.driver {
            Driver::AllDma => {
                raw.send_each(count, &mut |begin, piece| part(begin, piece, payload).0.fill(IN_PLACE_BYTE))
            }
            Driver::Copied => raw.send_each(count, &mut |begin, piece| {
                let (to, from) = part(begin, piece, payload);
                to.copy_from_slice(from);
            }),
            Driver::Hybrid => raw.send_each(count, &mut |begin, piece| {
                let (to, from) = part(begin, piece, payload);
                provide(to, from);
            }),
            _ => raw.send(count),
        };
        sent.map_err(failed)
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let (mut arrived, budget) = (Arrived::default(), self.burst(budget));
        let RawChannel { raw, content, controls, amid, copy, .. } = self;
        let is_copied = self.driver == Driver::Copied;
        let (data, control_source, echo) = (self.data, self.control_source, self.echo);
        raw.receive(budget, &mut |piece, more| {
            let is_data = amid.unwrap_or_else(|| piece[6..12] == data);
            if is_copied && is_data {
                copy.clear();
                copy.extend_from_slice(piece);
                std::hint::black_box(&mut *copy);
            }
            match amid {
                None if is_data => content.piece(content.payload(piece)),
                None if piece[6..12] == control_source => {
                    controls.extend(ControlMessage::from_bytes(&piece[ETHERNET_HEADER..]))
                }
                Some(true) => content.piece(piece),
                _ => {}
            }
            if is_data && echo && amid.is_none() {
                turn(piece);
            }
            *amid = more.then_some(is_data);
            if is_data && !more {
                content.end(&mut arrived);
            }
            is_data && echo
        })
        .map_err(failed)?;
        arrived.control = self.controls.pop_front();
        Ok(arrived)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        let mut frame = [0; MIN_FRAME];
        frame[..ETHERNET_HEADER].copy_from_slice(&self.out);
        frame[6] ^= MARK;
        frame[ETHERNET_HEADER..][..ControlMessage::BYTES].copy_from_slice(&control.to_bytes());
        self.raw.send_control(&frame).map(drop).map_err(failed)
    }

    fn window(&self) -> Option<u64> {
        Some(self.window)
    }
}

/// How often this side tries to open the device.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// After this time the far side opens again: a memif client looks for its server only once.
const LINK_TIMEOUT: Duration = Duration::from_millis(200);
/// The link of a NIC needs seconds after each opening.
const NIC_LINK_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a vhost device, which takes no `mac=`: "VHOST" in letters.
const VHOST: [u8; 6] = *b"\x56HOST\0";

/// Open the device of this name, with frames for the peer.
pub(crate) fn over_dpdk(
    side: Side,
    on: &TransportName,
    (here, peer): (&SideInfo, &SideInfo),
    watch: &Watch,
) -> Result<RawChannel<DpdkRaw>, Error> {
    if [here, peer].iter().any(|place| place.address == [0; 6]) {
        let both = "bare frames over dpdk go from one address to another: give both devices one with mac=, as in \
                    mac=02:00:00:00:00:01, or leave them out with --driver am";
        return Err(Error::Usage(both.to_owned()));
    }
    let options = DpdkOptions::of(on).map_err(|error| Error::Usage(error.to_string()))?;
    let raw = joined(side, &options, watch)?;
    let info = ChannelInfo::new(raw.mode(), peer.carried(raw.max_frame()));
    let depth = raw.depth();
    Ok(RawChannel::new(raw, info, depth, here.link(), peer))
}

/// Open the device, again and again until the other end is there.
fn joined(side: Side, options: &DpdkOptions, watch: &Watch) -> Result<DpdkRaw, Error> {
    let within = match side {
        _ if options.is_pci() => NIC_LINK_TIMEOUT,
        Side::Near => PEER_TIMEOUT,
        Side::Far => LINK_TIMEOUT,
    };
    let passes = |error: &Error| matches!(error, Error::Facility(_) | Error::Lost(_));
    watch.retry(PEER_TIMEOUT, RETRY_INTERVAL, passes, || {
        let mut raw = DpdkRaw::open(options).map_err(facility)?;
        let begin = Instant::now();
        // In memory, the other end is there once the link is up.
        while !raw.is_up() {
            watch.check()?;
            if begin.elapsed() > within {
                return Err(Error::Lost(format!("nobody is at the other end of {}", options.device())));
            }
            // Some drivers meet their other end on the first receive.
            raw.receive(am_dpdk::raw::BATCH, &mut |_| false);
        }
        Ok(raw)
    })
}

/// The address of the device of this name: a NIC tells it, other names contain it; else all zero.
pub(crate) fn dpdk_address(on: &TransportName) -> Result<[u8; 6], Error> {
    if let Some(options) = DpdkOptions::of(on).ok().filter(DpdkOptions::is_pci) {
        return DpdkRaw::open(&options).map(|nic| nic.address().0).map_err(facility);
    }
    let Ok((device, settings)) = on.settings_with_many("net_memif0", |_| true) else { return Ok([0; 6]) };
    if device.starts_with("net_vhost") {
        return Ok(VHOST);
    }
    let octets = |text: &str| {
        let octets: Option<Vec<u8>> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
        octets?.try_into().ok()
    };
    Ok(settings.filter(|(key, _)| *key == "mac").find_map(|(_, value)| octets(value?)).unwrap_or_default())
}

impl Device for DpdkRaw {
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.write(frame)
    }

    #[inline]
    fn send(&mut self, count: usize) -> io::Result<usize> {
        Ok(self.send(count))
    }

    #[inline]
    fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(usize, &mut [u8])) -> io::Result<usize> {
        Ok(self.send_each(count, &mut |frame| fill(0, frame)))
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8], bool) -> bool) -> io::Result<usize> {
        Ok(self.receive(budget, &mut |frame| each(frame, false)))
    }

    fn send_control(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.send_control(frame)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    type Frames = Rc<RefCell<VecDeque<Vec<u8>>>>;

    /// A device that changes what it sends, and receives frames in pieces.
    pub(crate) struct Bending {
        frame: Vec<u8>,
        out: Frames,
        back: Frames,
        bend: fn(&mut Vec<u8>),
        piece: usize,
    }

    impl Device for Bending {
        fn write(&mut self, frame: &[u8]) -> io::Result<()> {
            self.frame = frame.to_vec();
            Ok(())
        }

        fn send(&mut self, count: usize) -> io::Result<usize> {
            self.send_each(count, &mut |_, _| {})
        }

        fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(usize, &mut [u8])) -> io::Result<usize> {
            for _ in 0..count {
                self.frame.chunks_mut(self.piece).enumerate().for_each(|(at, piece)| fill(at * self.piece, piece));
                let mut frame = self.frame.clone();
                (self.bend)(&mut frame);
                self.out.borrow_mut().push_back(frame);
            }
            Ok(count)
        }

        fn receive(&mut self, _: usize, each: &mut dyn FnMut(&mut [u8], bool) -> bool) -> io::Result<usize> {
            let frames = self.back.take();
            for frame in &frames {
                let mut pieces: Vec<Vec<u8>> = frame.chunks(self.piece).map(<[u8]>::to_vec).collect();
                let last = pieces.len() - 1;
                let says: Vec<bool> = pieces.iter_mut().enumerate().map(|(at, piece)| each(piece, at < last)).collect();
                if says[0] {
                    self.out.borrow_mut().push_back(pieces.concat());
                }
            }
            Ok(frames.len())
        }

        fn send_control(&mut self, frame: &[u8]) -> io::Result<bool> {
            self.out.borrow_mut().push_back(frame.to_vec());
            Ok(true)
        }
    }

    /// Both sides, with messages of this size. `bend` changes what the near side sends.
    pub(crate) fn bent(bend: fn(&mut Vec<u8>), piece: usize, size: usize) -> [RawChannel<Bending>; 2] {
        let place = |last| SideInfo { address: [4, 0, 0, 0, 0, last], ..SideInfo::default() };
        let (there, back) = (Frames::default(), Frames::default());
        let channel = |own: u8, bend, out: &Frames, back: &Frames| {
            let device = Bending { frame: Vec::new(), out: Rc::clone(out), back: Rc::clone(back), bend, piece };
            let info = ChannelInfo::new("bent", 9000);
            let mut channel = RawChannel::new(device, info, 64, place(own).link(), &place(3 - own));
            channel.prepare(size).unwrap();
            channel
        };
        [channel(1, bend, &there, &back), channel(2, |_| {}, &back, &there)]
    }

    /// Enough messages for one to be compared.
    const MESSAGES: usize = crate::content::COMPARED_SHARE as usize;

    #[test]
    fn frames_that_were_cut_or_changed_are_wrong_in_whatever_pieces() {
        let first: fn(&mut Vec<u8>) = |frame| frame[ETHERNET_HEADER] ^= 1;
        let last: fn(&mut Vec<u8>) = |frame| *frame.last_mut().unwrap() ^= 1;
        for (piece, size) in [(9014, 1500), (512, 1500), (4096, 9000)] {
            for (bend, length, wrong) in
                [(first, size, 1), (last, size, 1), (|frame| frame.truncate(1024), 1010, MESSAGES)]
            {
                let [mut near, mut far] = bent(bend, piece, size);
                far.echo(true);
                near.send(MESSAGES).unwrap();
                let (messages, bytes, wrong) = (MESSAGES as u64, (MESSAGES * length) as u64, wrong as u64);
                let arrived = [far.receive(BATCH).unwrap(), near.receive(BATCH).unwrap()];
                assert_eq!(arrived, [Arrived { messages, bytes, wrong, control: None }; 2], "pieces of {piece}");
            }
        }
    }

    /// As over long frames, which a device has in several pieces: each piece gets its own part of the payload.
    #[test]
    fn payloads_that_are_written_for_each_frame_arrive_whole() {
        for driver in [Driver::AllDma, Driver::Copied, Driver::Hybrid] {
            for (piece, size) in [(64, 20), (9014, 1500), (512, 1500), (4096, 9000)] {
                let [mut near, mut far] = bent(|_| {}, piece, size).map(|side| side.of(driver));
                near.prepare(size).unwrap();
                far.prepare(size).unwrap();
                near.raw.frame[ETHERNET_HEADER..][..size].fill(0);
                near.send(MESSAGES).unwrap();
                let (messages, bytes) = (MESSAGES as u64, (MESSAGES * size) as u64);
                let arrived = far.receive(BATCH).unwrap();
                assert_eq!(
                    arrived,
                    Arrived { messages, bytes, wrong: 0, control: None },
                    "{driver:?}, pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn addresses_that_are_known_before_anything_is_open() {
        let of = |text: &str| dpdk_address(&text.parse().unwrap()).unwrap();
        assert_eq!(of("dpdk:net_memif0,role=server,mac=02:00:00:00:00:0a,id=0"), [2, 0, 0, 0, 0, 10]);
        assert_eq!(of("dpdk:net_vhost0,iface=/run/v"), VHOST);
        for unknown in ["dpdk:net_memif0", "dpdk:net_memif0,mac=02:00", "dpdk:net_memif0,mac=x:0:0:0:0:0"] {
            assert_eq!(of(unknown), [0; 6], "{unknown}");
        }
    }
}
