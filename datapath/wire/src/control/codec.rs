//! The bytes of control messages, field by field in the order of `docs/wire.md`.

use super::{
    Accept, Beacon, Close, Closed, Connect, Control, FinalAck, FinalAcks, FlowParameters, Incarnation, Keepalive, Name,
    NodeId, Probe, ProbeSeen, Refusal, Refuse, Step,
};
use crate::{Address, Flow, Framings, Seq};

/// Bytes of an [`FlowParameters`]: flow, nonce, two first numbers, two credits, longest frame.
const OFFER: usize = 2 + 2 + 2 * 4 + 2 * 2 + 4;

// The longest body, a `Connect` between the longest names: code, attempt, node,
// incarnation, names, tag, order, offer.
const _: () = assert!(1 + 4 + 8 + 8 + 2 * (1 + Name::MAX_BYTES) + 8 + 1 + OFFER <= Control::MAX_BYTES);

/// Writes one message; `at` is its length so far.
pub(super) struct Writer<'a> {
    body: &'a mut [u8; Control::MAX_BYTES],
    pub(super) at: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(body: &'a mut [u8; Control::MAX_BYTES]) -> Self {
        Writer { body, at: 0 }
    }

    pub(super) fn control(&mut self, control: &Control) -> &mut Self {
        match control {
            Control::Beacon(m) => self.u8(1).beacon(m),
            Control::Connect(m) => self.u8(2).connect(m),
            Control::Accept(m) => self.u8(3).u32(m.id).offer(&m.offer),
            Control::Refuse(m) => self.u8(4).u32(m.id).u8(m.why as u8),
            Control::Close(m) => {
                self.u8(5).u16(m.flow.id()).u16(m.nonce).u16(m.own.id()).u16(m.own_nonce).final_acks(&m.acks)
            }
            Control::Probe(m) => self.u8(6).u32(m.id).u64(m.node.0).u8(m.step as u8),
            Control::ProbeSeen(m) => self.u8(7).u32(m.id).u8(m.step as u8),
            Control::Still(m) => self.u8(8).u16(m.flow.id()).u16(m.nonce).u16(m.own.id()).u16(m.own_nonce),
            Control::Closed(m) => {
                let (own, own_nonce) = m.own.unwrap_or((Flow::NODE, 0));
                let closed = self.u8(9).u16(m.flow.id()).u16(m.nonce).u16(own.id()).u16(own_nonce);
                let closed = closed.u8(m.acks.is_some() as u8);
                m.acks.iter().fold(closed, Writer::final_acks)
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.body[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn u8(&mut self, n: u8) -> &mut Self {
        self.put(&[n])
    }

    fn u16(&mut self, n: u16) -> &mut Self {
        self.put(&n.to_be_bytes())
    }

    fn u32(&mut self, n: u32) -> &mut Self {
        self.put(&n.to_be_bytes())
    }

    fn u64(&mut self, n: u64) -> &mut Self {
        self.put(&n.to_be_bytes())
    }

    fn name(&mut self, name: &Name) -> &mut Self {
        self.u8(name.length).put(name.as_str().as_bytes())
    }

    fn offer(&mut self, o: &FlowParameters) -> &mut Self {
        self.u16(o.flow.id())
            .u16(o.nonce)
            .u32(o.first[0].0)
            .u32(o.first[1].0)
            .u16(o.credits[0])
            .u16(o.credits[1])
            .u32(o.max_frame)
    }

    fn beacon(&mut self, m: &Beacon) -> &mut Self {
        self.u64(m.node.0)
            .u64(m.incarnation.0)
            .name(&m.name)
            .put(&m.address.0)
            .u8(m.framings.bits())
            .u32(m.max_frame)
            .u8(m.answer as u8)
    }

    fn final_acks(&mut self, acks: &FinalAcks) -> &mut Self {
        acks.classes.iter().fold(self, |writer, ack| writer.u32(ack.before.0).u64(ack.sack))
    }

    fn connect(&mut self, m: &Connect) -> &mut Self {
        let asked = self.u32(m.id).u64(m.node.0).u64(m.incarnation.0).name(&m.from).name(&m.to).u64(m.tag);
        asked.u8(m.is_ordered as u8).offer(&m.offer)
    }
}

/// Reads one message; the rest of the body follows it.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[n]| n)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn name(&mut self) -> Option<Name> {
        let length = self.u8()? as usize;
        let text = self.0.get(..length)?;
        self.0 = &self.0[length..];
        Name::new(core::str::from_utf8(text).ok()?)
    }

    /// A flow that was set up; never the node's own.
    fn flow(&mut self) -> Option<Flow> {
        Flow::new(self.u16()?).filter(|&flow| flow != Flow::NODE)
    }

    fn offer(&mut self) -> Option<FlowParameters> {
        Some(FlowParameters {
            flow: self.flow()?,
            nonce: self.u16()?,
            first: [Seq(self.u32()?), Seq(self.u32()?)],
            credits: [self.u16()?, self.u16()?],
            max_frame: self.u32()?,
        })
    }

    fn step(&mut self) -> Option<Step> {
        match self.u8()? {
            1 => Some(Step::Forged),
            2 => Some(Step::Learned),
            3 => Some(Step::True),
            4 => Some(Step::Long),
            _ => None,
        }
    }

    fn refusal(&mut self) -> Option<Refusal> {
        match self.u8()? {
            1 => Some(Refusal::NoEndpoint),
            2 => Some(Refusal::Tag),
            3 => Some(Refusal::Full),
            _ => None,
        }
    }

    fn beacon(&mut self) -> Option<Beacon> {
        Some(Beacon {
            node: NodeId(self.u64()?),
            incarnation: Incarnation(self.u64()?),
            name: self.name()?,
            address: Address(self.take()?),
            framings: Framings::from_bits(self.u8()?),
            max_frame: self.u32()?,
            answer: self.bool()?,
        })
    }

    fn connect(&mut self) -> Option<Connect> {
        Some(Connect {
            id: self.u32()?,
            node: NodeId(self.u64()?),
            incarnation: Incarnation(self.u64()?),
            from: self.name()?,
            to: self.name()?,
            tag: self.u64()?,
            is_ordered: self.bool()?,
            offer: self.offer()?,
        })
    }

    pub(super) fn control(&mut self) -> Option<Control> {
        Some(match self.u8()? {
            1 => Control::Beacon(self.beacon()?),
            2 => Control::Connect(self.connect()?),
            3 => Control::Accept(Accept { id: self.u32()?, offer: self.offer()? }),
            4 => Control::Refuse(Refuse { id: self.u32()?, why: self.refusal()? }),
            5 => Control::Close(Close {
                flow: self.flow()?,
                nonce: self.u16()?,
                own: self.flow()?,
                own_nonce: self.u16()?,
                acks: self.final_acks()?,
            }),
            6 => Control::Probe(Probe { id: self.u32()?, node: NodeId(self.u64()?), step: self.step()? }),
            7 => Control::ProbeSeen(ProbeSeen { id: self.u32()?, step: self.step()? }),
            8 => Control::Still(Keepalive {
                flow: self.flow()?,
                nonce: self.u16()?,
                own: self.flow()?,
                own_nonce: self.u16()?,
            }),
            9 => Control::Closed(Closed {
                flow: self.flow()?,
                nonce: self.u16()?,
                own: match (Flow::new(self.u16()?)?, self.u16()?) {
                    (Flow::NODE, 0) => None,
                    (Flow::NODE, _) => return None,
                    own => Some(own),
                },
                acks: if self.bool()? { Some(self.final_acks()?) } else { None },
            }),
            _ => return None,
        })
    }

    fn final_acks(&mut self) -> Option<FinalAcks> {
        let mut ack = || Some(FinalAck { before: Seq(self.u32()?), sack: self.u64()? });
        Some(FinalAcks { classes: [ack()?, ack()?] })
    }
}
