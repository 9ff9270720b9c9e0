//! Discovery and set-up: the bodies of [`Kind::Control`](crate::Kind) frames.
//!
//! ```text
//!   alpha                                     beta
//!     │ Beacon (broadcast) ───────────────────▶│   I exist; who are you?
//!     │◀─────────────────────────────── Beacon │
//!     │ Probe ×2 ─────────────────────────────▶│   what does the network let through?
//!     │◀─────────────────────────── ProbeSeen  │
//!     │ Connect ──────────────────────────────▶│   endpoint to endpoint, with tag;
//!     │                                        │   send me frames on my flow 17
//!     │◀────────────────────────────── Accept  │   send me frames on my flow 4
//!     ╎ … messages on flows 17 and 4 …         ╎
//!     │ Close ────────────────────────────────▶│
//! ```

use core::fmt;

use crate::{Address, Flow, Framings, Reason, Seq};

/// The name of a node or an endpoint: 1 to 31 bytes of UTF-8 without control
/// characters, since names that came from the network are printed on terminals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    length: u8,
    bytes: [u8; Name::LONGEST],
}

impl Name {
    /// The most bytes of a name.
    pub const LONGEST: usize = 31;

    /// The name, or `None` where it is empty, too long, or has control characters.
    pub fn new(text: &str) -> Option<Name> {
        if text.chars().any(char::is_control) {
            return None;
        }
        let mut bytes = [0; Self::LONGEST];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.is_empty()).then_some(Name { length: text.len() as u8, bytes })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length as usize]).unwrap_or("?")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Names a node for as long as it exists, whatever its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// One run of a node: grows from start to start, so that frames of an earlier
/// run can be told from those of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

/// A node introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// Who.
    pub node: NodeId,
    /// Which run of it.
    pub incarnation: Incarnation,
    /// Its name.
    pub name: Name,
    /// Where frames for it go.
    pub address: Address,
    /// The framings that it understands.
    pub framings: Framings,
    /// The longest frame that it can receive, in bytes from the destination address on.
    pub max_frame: u32,
    /// Whether it wants to be answered with a beacon.
    pub answer: bool,
}

/// What one side of a flow says to the other when it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Put this flow id on frames to me.
    pub flow: Flow,
    /// And this nonce, where the framing carries one.
    pub nonce: u16,
    /// By class: the number of the first message that I will send.
    pub first: [Seq; 2],
    /// By class: how many messages you may send before I give more credit.
    pub credits: [u16; 2],
    /// The longest frame that I can receive.
    pub max_frame: u32,
}

/// Ask for a flow between two endpoints (AM-II's `AM_Map`, Directed Point's `dp_connect`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The asking node's number for this attempt; repeated when it asks again.
    pub id: u32,
    /// Who asks.
    pub node: NodeId,
    /// Which run of it.
    pub incarnation: Incarnation,
    /// The endpoint that asks.
    pub from: Name,
    /// The endpoint that is meant.
    pub to: Name,
    /// The tag that it must have (AM-II's message tags).
    pub tag: u64,
    /// The asking side's half.
    pub offer: Offer,
}

/// The flow exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The attempt that is answered.
    pub id: u32,
    /// The accepting side's half.
    pub offer: Offer,
}

/// The flow does not come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// The attempt that is answered.
    pub id: u32,
    /// Why.
    pub why: Refusal,
}

/// Why a flow was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// There is no endpoint of that name.
    NoEndpoint = 1,
    /// The endpoint has another tag.
    Tag = 2,
    /// No flow id or no credit is left.
    Full = 3,
}

/// A flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The flow id of the side that is told.
    pub flow: Flow,
    /// And its nonce.
    pub nonce: u16,
}

/// A frame that shows what the network between two nodes lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The number of this round of probes.
    pub id: u32,
    /// Who probes.
    pub node: NodeId,
    /// Which of the probes this is.
    pub step: Step,
}

/// The probes of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Step {
    /// Sent with a header for a source address: arrives where sources may be forged.
    Forged = 1,
    /// Sent *to* that source address: a switch that has learned it keeps the
    /// frame to itself, so that it arrives only where nothing learns.
    Learned = 2,
}

/// Which probes arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSeen {
    /// The round.
    pub id: u32,
    /// The probe that arrived.
    pub step: Step,
}

/// The body of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is documented at the type that it holds")]
pub enum Control {
    Beacon(Beacon),
    Connect(Connect),
    Accept(Accept),
    Refuse(Refuse),
    Close(Close),
    Probe(Probe),
    ProbeSeen(ProbeSeen),
}

impl Control {
    /// The most bytes that a body takes.
    pub const LONGEST: usize = 128;

    /// Write the body; returns its length. Never longer than [`Control::LONGEST`].
    pub fn emit(&self, body: &mut [u8; Self::LONGEST]) -> usize {
        let mut out = Writer { body, at: 0 };
        match self {
            Control::Beacon(m) => out.u8(1).beacon(m),
            Control::Connect(m) => out.u8(2).connect(m),
            Control::Accept(m) => out.u8(3).u32(m.id).offer(&m.offer),
            Control::Refuse(m) => out.u8(4).u32(m.id).u8(m.why as u8),
            Control::Close(m) => out.u8(5).u16(m.flow.id()).u16(m.nonce),
            Control::Probe(m) => out.u8(6).u32(m.id).u64(m.node.0).u8(m.step as u8),
            Control::ProbeSeen(m) => out.u8(7).u32(m.id).u8(m.step as u8),
        };
        out.at
    }

    /// Read a body.
    ///
    /// # Errors
    /// [`Reason::Body`] where it makes no sense, or something follows it.
    pub fn parse(body: &[u8]) -> Result<Control, Reason> {
        let mut input = Reader(body);
        let control = input.control().ok_or(Reason::Body)?;
        if input.0.is_empty() { Ok(control) } else { Err(Reason::Body) }
    }
}

/// Bytes of an [`Offer`]: flow, nonce, two first numbers, two credits, longest frame.
const OFFER: usize = 2 + 2 + 2 * 4 + 2 * 2 + 4;

// The longest body, a `Connect` between the longest names: code, attempt, node,
// incarnation, names, tag, offer.
const _: () = assert!(1 + 4 + 8 + 8 + 2 * (1 + Name::LONGEST) + 8 + OFFER <= Control::LONGEST);

struct Writer<'a> {
    body: &'a mut [u8; Control::LONGEST],
    at: usize,
}

impl Writer<'_> {
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

    fn offer(&mut self, o: &Offer) -> &mut Self {
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

    fn connect(&mut self, m: &Connect) -> &mut Self {
        self.u32(m.id).u64(m.node.0).u64(m.incarnation.0).name(&m.from).name(&m.to).u64(m.tag).offer(&m.offer)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[n]| n)
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

    /// A flow that was set up: never the node's own.
    fn flow(&mut self) -> Option<Flow> {
        Flow::new(self.u16()?).filter(|&flow| flow != Flow::NODE)
    }

    fn offer(&mut self) -> Option<Offer> {
        Some(Offer {
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
            answer: match self.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            },
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
            offer: self.offer()?,
        })
    }

    fn control(&mut self) -> Option<Control> {
        Some(match self.u8()? {
            1 => Control::Beacon(self.beacon()?),
            2 => Control::Connect(self.connect()?),
            3 => Control::Accept(Accept { id: self.u32()?, offer: self.offer()? }),
            4 => Control::Refuse(Refuse { id: self.u32()?, why: self.refusal()? }),
            5 => Control::Close(Close { flow: self.flow()?, nonce: self.u16()? }),
            6 => Control::Probe(Probe { id: self.u32()?, node: NodeId(self.u64()?), step: self.step()? }),
            7 => Control::ProbeSeen(ProbeSeen { id: self.u32()?, step: self.step()? }),
            _ => return None,
        })
    }
}
