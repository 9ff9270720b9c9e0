//! The middle rows: owned frames from a pool pass through a transport's queues; `interpreted` also reads each frame's
//! header.
//!
//! The paper's four queues are the transport's: the TX ring, the RX ring with its fill ring, the received burst, and
//! the frames that wait to be sent again. Without flow control the last one is empty. Interpretation stands for the
//! paper's `switch()` (§4.4): the sender writes a header into each frame, and the receiver parses it and dispatches on
//! it.

use std::collections::VecDeque;
use std::mem;

use am_ring::Frame;
use am_transport::{Command, Transport, TransportExt};
use am_wire::frame::{ETHERNET_HEADER, LinkAddresses, MIN_FRAME, body, emit, parse};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

use super::Row;
use super::bare::{hybrid, provide};
use crate::content::Content;
use crate::driver::Driver;
use crate::driver::memory::{FLOW_BYTES, flow_of, head};
use crate::error::Error;
use crate::measure::{Arrived, BATCH, Channel, ControlMessage};
use crate::plan::SideInfo;

/// The flow of data frames. Steering admits only frames with our header, so data goes on a flow, and control messages
/// go as control frames of a node.
const DATA: u16 = 1;
/// The first byte of a control frame's body. Steering admits a probe of any length.
const PROBE: u8 = 6;
/// Messages in flight. They fit the receiver's ring, as for `raw`.
const WINDOW: u64 = 512;

/// One side of a row.
pub(crate) struct Queues<T> {
    transport: T,
    link: LinkAddresses,
    row: Row,
    xdp: Option<&'static str>,
    largest: usize,
    content: Content,
    echo: bool,
    /// Whether the doorbell was rung since the last receive.
    flushed: bool,
    /// Control messages received and not yet handed over.
    controls: VecDeque<ControlMessage>,
    /// The source of the last control message, until it is used.
    peer_address: Option<Address>,
    /// The first bytes of a data frame, in rows that do not interpret headers.
    data: [u8; ETHERNET_HEADER],
    header: Header,
}

impl<T: Transport> Queues<T> {
    /// This row over a transport. If the peer's address is unknown, `to` is the broadcast address; the first control
    /// message from the peer replaces it.
    pub(crate) fn new(mut transport: T, to: Address, row: Row) -> Queues<T> {
        transport.steer(flow_of(DATA), true);
        // As many receive buffers as `raw` has: a window, and its echoes or control messages.
        transport.control(Command::RxCredit(2 * WINDOW as usize)).unwrap();
        let caps = transport.caps();
        let (from, largest) = (caps.address, caps.max_frame - ETHERNET_HEADER);
        Queues {
            link: LinkAddresses { to, from, ethertype: EtherType::DEFAULT },
            row,
            xdp: None,
            largest,
            content: Content::default(),
            echo: false,
            flushed: false,
            controls: VecDeque::with_capacity(BATCH),
            peer_address: None,
            data: head(DATA, from, to, 0),
            header: Header { kind: Kind::Request, flow: flow_of(DATA), nonce: 0, handler: 0, words: 0, seq: 0 },
            transport,
        }
    }

    /// Report where the transport's XDP program runs.
    pub(crate) fn by_xdp(self, at: &'static str) -> Queues<T> {
        Queues { xdp: Some(at), ..self }
    }

    /// Limit frames to the length that the peer carries too.
    pub(crate) fn carrying(self, peer: &SideInfo) -> Queues<T> {
        Queues { largest: peer.carries(self.largest as u32), ..self }
    }

    /// Send one message; `false` if there is no room now.
    #[inline]
    fn message(&mut self) -> bool {
        let Queues { transport, link, row, content, data, header, .. } = self;
        let Some(mut frame) = transport.caps().pool.take() else { return false };
        let payload = content.bytes();
        let write = |space: &mut [u8]| {
            if *row == Row::Interpreted {
                provide(body(space, Framing::Bare, payload.len()).ok()?, payload);
                header.seq = header.seq.wrapping_add(1);
                return emit(space, Framing::Bare, link, header, payload.len(), None).ok();
            }
            // The same header in each frame.
            let (head, to) = space.split_at_mut_checked(ETHERNET_HEADER)?;
            head.copy_from_slice(data);
            provide(to.get_mut(..payload.len())?, payload);
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
}

impl<T: Transport> Channel for Queues<T> {
    fn mode(&self) -> &str {
        &self.transport.caps().mode
    }

    fn xdp(&self) -> Option<&'static str> {
        self.xdp
    }

    fn framing(&self) -> &'static str {
        Framing::Bare.name()
    }

    fn largest(&self) -> usize {
        self.largest
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        if size > self.largest {
            return Err(Error::TooLarge { driver: Driver::Row(self.row), size, most: self.largest });
        }
        self.content = hybrid(size);
        self.data = head(DATA, self.link.from, self.link.to, size);
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        Ok(self.burst(count))
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let Queues { transport, link, content, controls, peer_address, data, row, .. } = self;
        let (mut arrived, interprets) = (Arrived::default(), *row == Row::Interpreted);
        transport.receive(budget, &mut |frame: Frame| {
            let bytes = frame.bytes();
            // The row below `interpreted` knows data by its flow.
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
        // The first control message of the peer tells its address.
        if let Some(to) = self.peer_address.take().filter(|_| self.link.to.is_group()) {
            self.link.to = to;
            self.data = head(DATA, self.link.from, to, self.content.bytes().len());
        }
        arrived.control = self.controls.pop_front();
        if self.echo && arrived.messages > 0 {
            self.burst(arrived.messages as usize);
        } else if !mem::take(&mut self.flushed) {
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
        Some(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use am_transport::loopback::{Loopback, Plug, wire};

    use super::*;

    fn pair(row: Row) -> [Queues<Loopback>; 2] {
        let [near, far]: [Plug; 2] = wire(2).try_into().unwrap();
        let (here, there) = (near.address(), far.address());
        [Queues::new(near.open().unwrap(), there, row), Queues::new(far.open().unwrap(), here, row)]
    }

    #[test]
    fn messages_and_notes_arrive_in_their_order_at_every_size() {
        for row in [Row::Buffers, Row::Interpreted] {
            let [mut near, mut far] = pair(row);
            for size in [1, 45, 46, 47, 256, 257, 1500] {
                near.prepare(size).unwrap();
                far.prepare(size).unwrap();
                assert_eq!(near.send(3).unwrap(), 3);
                near.send_control(ControlMessage::Stop { step: 9 }).unwrap();
                let control = Some(ControlMessage::Stop { step: 9 });
                let expected = Arrived { messages: 3, bytes: 3 * size as u64, wrong: 0, control };
                assert_eq!(far.receive(BATCH).unwrap(), expected, "{row:?} {size}");
            }
            assert!(near.prepare(1501).is_err());
        }
    }

    #[test]
    fn other_content_and_another_length_are_wrong() {
        for row in [Row::Buffers, Row::Interpreted] {
            let [mut near, mut far] = pair(row);
            far.prepare(100).unwrap();
            near.prepare(100).unwrap();
            near.content = Content::in_place(100);
            near.send(1).unwrap();
            near.prepare(99).unwrap();
            near.send(1).unwrap();
            assert_eq!(far.receive(BATCH).unwrap(), Arrived { messages: 2, bytes: 199, wrong: 2, control: None });
        }
    }

    /// Without interpretation, padding hides the length.
    #[test]
    fn who_interprets_knows_the_length_of_a_short_frame() {
        let [mut near, mut far] = pair(Row::Interpreted);
        near.prepare(16).unwrap();
        far.prepare(17).unwrap();
        near.send(1).unwrap();
        assert_eq!(far.receive(BATCH).unwrap(), Arrived { messages: 1, bytes: 16, wrong: 1, control: None });
    }

    /// As over transports that do not know the peer's address at the start.
    #[test]
    fn who_is_heard_is_known() {
        let [mut near, mut far] = pair(Row::Buffers);
        let whole = [&near, &far].map(|side| side.link.to);
        for side in [&mut near, &mut far] {
            side.link.to = Address::BROADCAST;
            side.data = head(DATA, side.link.from, Address::BROADCAST, side.content.bytes().len());
            side.prepare(16).unwrap();
        }
        near.send_control(ControlMessage::End).unwrap();
        assert_eq!(far.receive(BATCH).unwrap().control, Some(ControlMessage::End));
        far.send_control(ControlMessage::Ended).unwrap();
        assert_eq!(near.receive(BATCH).unwrap().control, Some(ControlMessage::Ended));
        assert_eq!([near.link.to, far.link.to], whole);
        near.send(1).unwrap();
        assert_eq!(far.receive(BATCH).unwrap().messages, 1);
    }

    #[test]
    fn what_arrives_is_sent_back_where_that_is_wanted() {
        let [mut near, mut far] = pair(Row::Buffers);
        near.prepare(16).unwrap();
        far.prepare(16).unwrap();
        far.echo(true);
        near.send(2).unwrap();
        far.receive(BATCH).unwrap();
        assert_eq!(near.receive(BATCH).unwrap().messages, 2);
    }
}
