//! Frames without a protocol between two threads, over the loopback transport or a simulated NIC.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use am_netdev_sim::live::{self, LiveNic, SimSettings};
use am_ring::Frame;
use am_transport::loopback::{Loopback, Plug};
use am_transport::{Transport, TransportExt, TransportName};
use am_wire::frame::{ETHERNET_HEADER, LinkAddresses, MIN_FRAME, emit};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

use super::am::facility;
use crate::content::Content;
use crate::driver::Driver;
use crate::error::Error;
use crate::measure::{Arrived, BATCH, Channel, ControlMessage};
use crate::watch::{PEER_TIMEOUT, Watch};

/// Steering admits only frames with our header: one for data, and one for control messages.
const DATA: u16 = 1;
const CONTROL: u16 = 2;

/// The bytes of a `bare` frame with version, kind and flow.
pub(crate) const FLOW_BYTES: Range<usize> = 6..9;

pub(crate) struct Memory<T = Loopback> {
    transport: T,
    to: Address,
    window: Option<u64>,
    mode: String,
    largest: usize,
    content: Content,
    echo: bool,
    /// Control messages received and not yet handed over.
    controls: VecDeque<ControlMessage>,
    /// The first bytes of a data frame and of a control message; the rest is payload.
    data: [u8; ETHERNET_HEADER],
    controls_out: [u8; ETHERNET_HEADER],
}

impl Memory {
    /// This end of a wire in memory. A full queue refuses frames, and nothing is lost.
    pub(crate) fn open(plug: Plug, to: Address) -> Result<Memory, Error> {
        Ok(Memory::over(plug.open().map_err(facility)?, to, None))
    }
}

/// On a simulated network: less than half of a NIC's ring, as for other bare frames.
const SIMULATED_WINDOW: u64 = 256;

impl Memory<LiveNic> {
    /// A NIC of the network of this name, once the other side is there.
    pub(crate) fn simulated(on: &TransportName, watch: &Watch) -> Result<Memory<LiveNic>, Error> {
        let settings = SimSettings::from_name(on).map_err(|error| Error::Usage(error.to_string()))?;
        let end = live::open(&settings).map_err(facility)?;
        // A side that returns after a driver has its old place, and so its old address.
        let nobody = || Error::Lost(format!("nobody else is on {on}"));
        let look = || end.peer_addresses().first().copied().ok_or_else(nobody);
        let to = watch.retry(PEER_TIMEOUT, Duration::from_millis(1), |_| true, look)?;
        Ok(Memory::over(end, to, Some(SIMULATED_WINDOW)))
    }
}

impl<T: Transport> Memory<T> {
    /// Over this transport to `to`. The window limits messages in flight if the transport may lose them.
    pub(crate) fn over(mut transport: T, to: Address, window: Option<u64>) -> Memory<T> {
        for flow in [DATA, CONTROL] {
            transport.steer(flow_of(flow), true);
        }
        let from = transport.caps().address;
        let (mode, largest) = (transport.caps().mode.clone(), transport.caps().max_frame - ETHERNET_HEADER);
        let (data, controls_out) = (head(DATA, from, to, 0), head(CONTROL, from, to, ControlMessage::BYTES));
        Memory {
            transport,
            to,
            window,
            mode,
            largest,
            content: Content::default(),
            echo: false,
            controls: VecDeque::with_capacity(BATCH),
            data,
            controls_out,
        }
    }

    fn data(&mut self, count: usize) -> usize {
        let Memory { transport, to, data, content, .. } = self;
        let sent = (0..count).take_while(|_| send(transport, *to, data, content.bytes())).count();
        transport.flush();
        sent
    }
}

/// `false` if there is no room now.
#[inline]
fn send(transport: &mut impl Transport, to: Address, head: &[u8; ETHERNET_HEADER], payload: &[u8]) -> bool {
    let Some(mut frame) = transport.caps().pool.take() else { return false };
    if let Some(space) = frame.space() {
        space[..ETHERNET_HEADER].copy_from_slice(head);
        space[ETHERNET_HEADER..][..payload.len()].copy_from_slice(payload);
    }
    frame.set_len((ETHERNET_HEADER + payload.len()).max(MIN_FRAME));
    transport.send(to, &frame)
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

impl<T: Transport> Channel for Memory<T> {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn largest(&self) -> usize {
        self.largest
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        if size > self.largest {
            return Err(Error::TooLarge { driver: Driver::Raw, size, most: self.largest });
        }
        self.content = Content::of(size);
        self.data = head(DATA, self.transport.caps().address, self.to, size);
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        Ok(self.data(count))
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        // An arriving frame has the sender's header; version, kind and flow are the same in ours.
        let Memory { transport, content, controls, .. } = self;
        let (data, controls_out) = (&self.data[FLOW_BYTES], &self.controls_out[FLOW_BYTES]);
        transport.receive(budget, &mut |frame: Frame| match frame.bytes() {
            bytes if bytes[FLOW_BYTES] == *data => content.count(content.payload(bytes), &mut arrived),
            bytes if bytes[FLOW_BYTES] == *controls_out => {
                controls.extend(ControlMessage::from_bytes(&bytes[ETHERNET_HEADER..]));
            }
            _ => {}
        });
        arrived.control = self.controls.pop_front();
        if self.echo && arrived.messages > 0 {
            self.data(arrived.messages as usize);
        }
        Ok(arrived)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        send(&mut self.transport, self.to, &self.controls_out, &control.to_bytes());
        self.transport.flush();
        Ok(())
    }

    fn window(&self) -> Option<u64> {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use am_transport::loopback::wire;

    use super::*;

    fn pair() -> (Memory, Memory) {
        let [near, far]: [Plug; 2] = wire(2).try_into().unwrap();
        let (here, there) = (near.address(), far.address());
        let mut ports = (Memory::open(near, there).unwrap(), Memory::open(far, here).unwrap());
        ports.0.prepare(16).unwrap();
        ports.1.prepare(16).unwrap();
        ports
    }

    #[test]
    fn no_note_overtakes_another() {
        let (mut near, mut far) = pair();
        assert_eq!(near.send(3).unwrap(), 3);
        let controls_out =
            [ControlMessage::Stop { step: 1 }, ControlMessage::HowMany { step: 2, sent: 3 }, ControlMessage::End];
        for control in controls_out {
            near.send_control(control).unwrap();
        }
        let first = far.receive(BATCH).unwrap();
        assert_eq!(first, Arrived { messages: 3, bytes: 48, wrong: 0, control: Some(controls_out[0]) });
        assert_eq!(far.receive(BATCH).unwrap().control, Some(controls_out[1]));
        assert_eq!(far.receive(BATCH).unwrap().control, Some(controls_out[2]));
        assert_eq!(far.receive(BATCH).unwrap(), Arrived::default());
    }

    #[test]
    fn what_arrives_is_sent_back_where_that_is_wanted() {
        let (mut near, mut far) = pair();
        near.send(2).unwrap();
        far.echo(true);
        far.receive(BATCH).unwrap();
        assert_eq!(near.receive(BATCH).unwrap().messages, 2);
    }

    #[test]
    fn other_content_and_another_length_are_wrong() {
        let (mut near, mut far) = pair();
        near.content = Content::in_place(16);
        near.send(1).unwrap();
        assert_eq!(far.receive(BATCH).unwrap(), Arrived { messages: 1, bytes: 16, wrong: 1, control: None });
        near.prepare(100).unwrap();
        near.send(2).unwrap();
        assert_eq!(far.receive(BATCH).unwrap(), Arrived { messages: 2, bytes: 200, wrong: 2, control: None });
    }

    #[test]
    fn a_full_queue_says_so_and_loses_nothing() {
        let (mut near, mut far) = pair();
        let mut sent = 0;
        loop {
            match near.send(BATCH).unwrap() {
                0 => break,
                more => sent += more,
            }
        }
        let mut arrived = 0;
        while let Arrived { messages: more @ 1.., .. } = far.receive(BATCH).unwrap() {
            arrived += more as usize;
        }
        assert_eq!(arrived, sent);
        assert!(near.prepare(1501).is_err());
    }
}
