//! The middle rows: owned frames from a pool pass through a transport's queues; `interpreted` also reads each frame's
//! header. Without the row's content, it is `raw` over the loopback transport and on simulated networks.
//!
//! The paper's four queues are the transport's: the TX ring, the RX ring with its fill ring, the received burst, and
//! the frames that wait to be sent again. Without flow control the last one is empty. Interpretation stands for the
//! paper's `switch()` (§4.4): the sender writes a header into each frame, and the receiver parses it and dispatches on
//! it.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::time::Duration;

use am_netdev_sim::live::{self, LiveNic, SimSettings};
use am_ring::Frame;
use am_transport::{Command, Notice, Transport, TransportExt, TransportName};
use am_wire::frame::{ETHERNET_HEADER, LinkAddresses, MIN_FRAME, body, emit, parse};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

use crate::channel::{Arrived, BATCH, Channel, ChannelInfo, ControlMessage};
use crate::content::{Content, IN_PLACE_BYTE};
use crate::driver::Driver;
use crate::drivers::am::facility;
use crate::error::Error;
use crate::plan::SideInfo;
use crate::size::FrameLayout;
use crate::watch::{PEER_TIMEOUT, Watch};

/// After this many receives in a row that found nothing, the transport looks at its link, and for a lost other end.
const IDLE_TURNS: u32 = 1 << 14;
/// The flow of data frames. Steering admits only frames with our header, so data goes on a flow, and control messages
/// go as control frames of a node.
const DATA: u16 = 1;
/// The first byte of a control frame's body. Steering admits a probe of any length.
const PROBE: u8 = 6;
/// Messages in flight. They fit the receiver's ring, as for `raw`.
const WINDOW: u64 = 512;

/// On a simulated network: less than half of a NIC's ring, as for other bare frames.
const SIMULATED_WINDOW: u64 = 256;
const INTERPRETED: Driver = Driver::Interpreted;
/// `hybrid` copies payloads up to this length: four cache lines.
const MAX_COPIED: usize = 256;
/// The bytes of a `bare` frame with version, kind and flow.
const FLOW_BYTES: Range<usize> = 6..9;

/// The content that `hybrid` sends.
pub(crate) fn hybrid(size: usize) -> Content {
    if size <= MAX_COPIED { Content::of(size) } else { Content::in_place(size) }
}

/// Fill a frame's payload as `hybrid` does: copy it, or build it in place.
#[inline]
pub(crate) fn provide(to: &mut [u8], payload: &[u8]) {
    if to.len() <= MAX_COPIED {
        to.copy_from_slice(payload);
    } else {
        to.fill(IN_PLACE_BYTE);
    }
}

/// One side of the driver.
pub(crate) struct Queues<T> {
    transport: T,
    link: LinkAddresses,
    driver: Driver,
    window: Option<u64>,
    info: ChannelInfo,
    content: Content,
    /// While this side echoes: the echoes that have found no room yet.
    echoes: Option<usize>,
    /// Whether the doorbell was rung since the last receive.
    flushed: bool,
    /// Receives in a row that found nothing.
    idle: u32,
    /// Why nothing arrives or leaves, as the transport last said.
    broken: Option<String>,
    /// Control messages received and not yet handed over.
    controls: VecDeque<ControlMessage>,
    /// The source of the last control message, until it is used.
    peer_address: Option<Address>,
    /// The first bytes of a data frame, in rows that do not interpret headers.
    data: [u8; ETHERNET_HEADER],
    header: Header,
}

impl<T: Transport> Queues<T> {
    /// This row, or `raw`, over a transport. If the peer's address is unknown, `to` is the broadcast address; the first control
    /// message from the peer replaces it.
    pub(crate) fn new(mut transport: T, to: Address, driver: Driver) -> Queues<T> {
        transport.steer(flow_of(DATA), true);
        // As many receive buffers as `raw` has: a window, and its echoes or control messages.
        transport.control(Command::RxCredit(2 * WINDOW as usize)).unwrap();
        let caps = transport.caps();
        let info = ChannelInfo::new(&caps.mode, caps.max_frame - ETHERNET_HEADER);
        let (from, framing) = (caps.address, if driver == Driver::Raw { info.framing } else { Framing::Bare.name() });
        Queues {
            link: LinkAddresses { to, from, ethertype: EtherType::DEFAULT },
            driver,
            // In memory, a full queue refuses frames of `raw`, and nothing is lost.
            window: (driver != Driver::Raw).then_some(WINDOW),
            info: ChannelInfo { framing, ..info },
            content: Content::default(),
            echoes: None,
            flushed: false,
            idle: 0,
            broken: None,
            controls: VecDeque::with_capacity(BATCH),
            peer_address: None,
            data: head(DATA, from, to, 0),
            header: Header { kind: Kind::Request, flow: flow_of(DATA), nonce: 0, handler: 0, words: 0, seq: 0 },
            transport,
        }
    }

    /// Limit frames to the length that the peer carries too, and report where the transport's XDP program runs.
    pub(crate) fn carrying(mut self, peer: &SideInfo, xdp: Option<&'static str>) -> Queues<T> {
        self.info.layout = FrameLayout::of_frames(peer.carries(self.info.layout.largest as u32));
        self.info.xdp = xdp;
        self
    }

    /// Send one message; `false` if there is no room now.
    #[inline]
    fn message(&mut self) -> bool {
        let Queues { transport, link, driver, content, data, header, .. } = self;
        let Some(mut frame) = transport.caps().pool.take() else { return false };
        let payload = content.bytes();
        let write = |space: &mut [u8]| {
            if *driver == INTERPRETED {
                provide(body(space, Framing::Bare, payload.len()).ok()?, payload);
                header.seq = header.seq.wrapping_add(1);
                return emit(space, Framing::Bare, link, header, payload.len(), None).ok();
            }
            // The same header in each frame.
            let (head, to) = space.split_at_mut_checked(ETHERNET_HEADER)?;
            head.copy_from_slice(data);
            let to = to.get_mut(..payload.len())?;
            if *driver == Driver::Raw {
                to.copy_from_slice(payload)
            } else {
                provide(to, payload)
            }
            Some((ETHERNET_HEADER + payload.len()).max(MIN_FRAME))
        };
        let Some(length) = frame.space().and_then(write) else { return false };
        frame.set_len(length);
        transport.send(link.to, &frame)
    }

    #[inline]
    fn burst(&mut self, count: usize) -> usize {
        let sent = (0..count).take_while(|_| self.message()).count();
        self.transport.flush();
        self.flushed = true;
        sent
    }

    /// A receive found nothing. Some transports look for their other end only if they are asked for news.
    #[inline]
    fn idle(&mut self) {
        self.idle += 1;
        if self.idle >= IDLE_TURNS {
            (self.idle, self.broken) = (0, None);
            let Queues { transport, broken, .. } = self;
            transport.poll_notices(&mut |notice| {
                if let Notice::LinkError(why) = notice {
                    *broken = Some(why.to_owned());
                }
            });
        }
    }
}

pub(crate) fn flow_of(id: u16) -> Flow {
    Flow::new(id).unwrap_or(Flow::NODE)
}

/// The first bytes of a frame with this payload.
pub(crate) fn head(flow: u16, from: Address, to: Address, payload: usize) -> [u8; ETHERNET_HEADER] {
    let header = Header { kind: Kind::Request, flow: flow_of(flow), nonce: 0, handler: 0, words: 0, seq: 0 };
    let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
    // The body fills the frame, so no trailer is written into it.
    let body = payload.max(MIN_FRAME - ETHERNET_HEADER);
    let mut frame = vec![0; ETHERNET_HEADER + body];
    let written = emit(&mut frame, Framing::Bare, &link, &header, body, None);
    debug_assert!(written.is_ok());
    let mut head = [0; ETHERNET_HEADER];
    head.copy_from_slice(&frame[..ETHERNET_HEADER]);
    head
}

impl Queues<LiveNic> {
    /// `raw` on a NIC of the network of this name, once the other side is there.
    pub(crate) fn simulated(on: &TransportName, watch: &Watch) -> Result<Queues<LiveNic>, Error> {
        let settings = SimSettings::from_name(on).map_err(|error| Error::Usage(error.to_string()))?;
        let end = live::open(&settings).map_err(facility)?;
        // A side that returns after a driver has its old place, and so its old address.
        let nobody = || Error::Lost(format!("nobody else is on {on}"));
        let look = || end.peer_addresses().first().copied().ok_or_else(nobody);
        let to = watch.retry(PEER_TIMEOUT, Duration::from_millis(1), |_| true, look)?;
        Ok(Queues { window: Some(SIMULATED_WINDOW), ..Queues::new(end, to, Driver::Raw) })
    }
}

impl<T: Transport> Channel for Queues<T> {
    fn info(&self) -> &ChannelInfo {
        &self.info
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.content = if self.driver == Driver::Raw { Content::of(size) } else { hybrid(size) };
        self.data = head(DATA, self.link.from, self.link.to, size);
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echoes = on.then_some(0);
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        Ok(self.burst(count))
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let Queues { transport, link, content, controls, peer_address, data, driver, .. } = self;
        let (mut arrived, interprets) = (Arrived::default(), *driver == INTERPRETED);
        let frames = transport.receive(budget, &mut |frame: Frame| {
            let bytes = frame.bytes();
            // Only `interpreted` dispatches on the header.
            if !interprets && bytes[FLOW_BYTES] == data[FLOW_BYTES] {
                return content.count(content.payload(bytes), &mut arrived);
            }
            let Ok(parsed) = parse(bytes, link.ethertype) else { return };
            match (parsed.header.kind, parsed.header.flow.id()) {
                (Kind::Request, DATA) => content.count(parsed.payload, &mut arrived),
                (Kind::Control, _) => {
                    controls.extend(parsed.payload.get(1..).and_then(ControlMessage::from_bytes));
                    *peer_address = Some(parsed.source);
                }
                _ => {}
            }
        });
        if frames == 0 {
            self.idle();
        } else {
            self.idle = 0;
        }
        // The first control message of the peer tells its address.
        if let Some(to) = self.peer_address.take().filter(|_| self.link.to.is_group()) {
            self.link.to = to;
            self.data = head(DATA, self.link.from, to, self.content.bytes().len());
        }
        arrived.control = self.controls.pop_front();
        let wanted = self.echoes.map_or(0, |owed| owed + arrived.messages as usize);
        if wanted > 0 {
            let sent = self.burst(wanted);
            self.echoes = Some(wanted - sent);
        } else if !mem::take(&mut self.flushed) && self.driver != Driver::Raw {
            // Submit what the last doorbell left over, and supply buffers for what arrives.
            self.transport.flush();
        }
        Ok(arrived)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        let Some(mut frame) = self.transport.caps().pool.take() else { return Ok(()) };
        // The source address is true, so that the receiver learns it.
        let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
        let length = frame.space().and_then(|space| {
            let (code, bytes) = body(space, Framing::Plain, 1 + ControlMessage::BYTES).ok()?.split_first_mut()?;
            *code = PROBE;
            bytes.copy_from_slice(&control.to_bytes());
            emit(space, Framing::Plain, &self.link, &header, 1 + ControlMessage::BYTES, None).ok()
        });
        frame.set_len(length.unwrap_or(MIN_FRAME));
        // Without room the message is lost, and the peer asks again.
        _ = self.transport.send(self.link.to, &frame);
        self.transport.flush();
        Ok(())
    }

    fn window(&self) -> Option<u64> {
        self.window
    }

    fn problem(&self) -> Option<String> {
        self.broken.clone()
    }
}

#[cfg(test)]
mod tests;
