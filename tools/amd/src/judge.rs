//! The filter of the frames that a port sends. It reads a frame, or its head, in the daemon's own copy, which the program cannot change.
//!
//! ```text
//!   frame ─▶ a route? ─▶ own source? ─▶ a message: flow granted by this destination? ──▶ to the destination
//!                                        └▶ control:   own name and address?             ──▶ to it, or to all
//! ```
//!
//! In a control frame the filter checks what a receiver trusts without verification: the node, the name and the address that the frame
//! claims. A receiver compares the other fields with the frame's source, which the filter has compared with the port's address: an Accept,
//! a Close or a Closed from an address other than the flow's peer has no effect.
//!
//! In a message the filter reads only destination, source and flow. The other fields concern only the receiver, which granted the flow and
//! checks the frame as it checks frames from the wire. Most frames have the destination, source and flow of the frame before, so the fast
//! path is three comparisons.

use am_wire::control::{Beacon, Control, Name, NodeId, Step};
use am_wire::frame::{self, ETHERNET_HEADER};
use am_wire::{Address, EtherType, Flow, Framing, Kind, Route};

use crate::grants::Grants;

/// The reason for which a frame is refused. The counters have these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The bytes are no frame, or the lane holds no valid record.
    Malformed,
    /// The frame has an EtherType other than the wire's.
    ForeignEthertype,
    /// The source address is not the port's.
    BadSource,
    /// The frame claims another node's name, id or address.
    BadName,
    /// The destination is invalid for this frame: the port itself, or a group for a frame that goes to one node.
    BadDestination,
    /// The receiver did not grant this flow to this port.
    NotGranted,
    /// The port has exceeded its rate of broadcast frames.
    TooOften,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Refusal; 7] = [
        Refusal::Malformed,
        Refusal::ForeignEthertype,
        Refusal::BadSource,
        Refusal::BadName,
        Refusal::BadDestination,
        Refusal::NotGranted,
        Refusal::TooOften,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Malformed => "malformed",
            Refusal::ForeignEthertype => "foreign_ethertype",
            Refusal::BadSource => "bad_source",
            Refusal::BadName => "bad_name",
            Refusal::BadDestination => "bad_destination",
            Refusal::NotGranted => "not_granted",
            Refusal::TooOften => "too_often",
        }
    }
}

/// The kind of a frame that the filter allows. The switch may still drop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// A message or an acknowledgement, on a flow that its receiver granted.
    Granted,
    /// A control frame for one node.
    Control(Control),
    /// A control frame for all nodes.
    Everyone,
    /// A beacon with a name that the port has not had yet.
    Claim(Name),
}

/// The filter of one port: the port's identity, and the flows on which it may send.
#[derive(Debug)]
pub struct Guard {
    address: Address,
    /// The address with which its node probes the network.
    probe: Address,
    ethertype: EtherType,
    name: Option<(NodeId, Name)>,
    /// The flows on which it may send.
    pub grants: Grants,
}

/// The destination of a frame. A frame that is too short for a destination has the address zero.
#[inline]
pub fn destination(frame: &[u8]) -> Address {
    frame.first_chunk().map_or(Address([0; 6]), |bytes| Address(*bytes))
}

/// The EtherType of a frame; 0 for a frame that is too short.
#[inline]
pub fn ethertype(frame: &[u8]) -> u16 {
    frame.first_chunk::<ETHERNET_HEADER>().map_or(0, |header| u16::from_be_bytes([header[12], header[13]]))
}

impl Guard {
    /// The guard of a port that has no name and no flows yet. `random` seeds the hash as in [`Grants::new`].
    pub fn new(address: Address, ethertype: EtherType, random: u64) -> Guard {
        let probe = frame::split_source(Flow::NODE, address);
        Guard { address, probe, ethertype, name: None, grants: Grants::new(random) }
    }

    /// The port's address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The name of the port's node, once the node has announced it.
    pub fn name(&self) -> Option<Name> {
        self.name.map(|(_, name)| name)
    }

    /// Set the name of the port's node.
    pub fn set_name(&mut self, name: Name) {
        self.name = Some((NodeId::of(&name), name));
    }

    /// Check a frame that the port sends.
    ///
    /// # Errors
    /// The reason for which the frame is refused.
    #[inline]
    pub fn judge(&mut self, frame: &[u8]) -> Result<Ruling, Refusal> {
        if self.grants.allows_same(frame) { Ok(Ruling::Granted) } else { self.judge_any(frame) }
    }

    /// The slow path of [`judge`](Self::judge).
    fn judge_any(&mut self, frame: &[u8]) -> Result<Ruling, Refusal> {
        let (to, found) = (destination(frame), ethertype(frame));
        if found != self.ethertype.hidden() && found != self.ethertype.plain() {
            return Err(Refusal::ForeignEthertype);
        }
        let route = Route::of(frame, self.ethertype).map_err(|_| Refusal::Malformed)?;
        let source = match route.framing {
            Framing::Plain => self.address,
            Framing::Split => frame::split_source(route.flow, self.address),
            // In bare framing the source is the whole header.
            Framing::Bare => route.source,
        };
        match route.flow {
            _ if route.source != source => Err(Refusal::BadSource),
            _ if to == self.address => Err(Refusal::BadDestination),
            Flow::NODE => self.judge_control(frame, to),
            _ if self.grants.allows(to, frame, &route) => Ok(Ruling::Granted),
            _ => Err(Refusal::NotGranted),
        }
    }

    #[cold]
    fn judge_control(&self, frame: &[u8], to: Address) -> Result<Ruling, Refusal> {
        let parsed = frame::parse(frame, self.ethertype).map_err(|_| Refusal::Malformed)?;
        let control = Control::parse(parsed.payload).map_err(|_| Refusal::Malformed)?;
        let own =
            |node: NodeId| if Some(node) == self.name.map(|(own, _)| own) { Ok(()) } else { Err(Refusal::BadName) };
        // This probe tests whether the network delivers a frame whose source address is a header.
        let is_forged = matches!(control, Control::Probe(probe) if probe.step == Step::Forged);
        if parsed.framing != Framing::Plain && !(is_forged && parsed.framing == Framing::Split) {
            return Err(Refusal::BadSource);
        }
        match control {
            Control::Beacon(beacon) => return self.judge_beacon(&beacon, to),
            Control::Connect(connect) => own(connect.node)?,
            Control::Probe(probe) => own(probe.node)?,
            // A node may report another node as silent: the receivers then probe that node themselves.
            Control::Leave(_) if to.is_group() => return Ok(Ruling::Everyone),
            _ => (),
        }
        let is_learned = matches!(control, Control::Probe(probe) if probe.step == Step::Learned);
        match () {
            () if is_learned && to == self.probe => Ok(Ruling::Everyone),
            // Only a probe may have a destination that is no node's address.
            () if is_learned || to.is_group() => Err(Refusal::BadDestination),
            () => Ok(Ruling::Control(control)),
        }
    }

    fn judge_beacon(&self, beacon: &Beacon, to: Address) -> Result<Ruling, Refusal> {
        let claimed = (beacon.node, beacon.name);
        if beacon.address != self.address || beacon.node != NodeId::of(&beacon.name) {
            return Err(Refusal::BadName);
        }
        match self.name {
            Some(own) if own != claimed => Err(Refusal::BadName),
            Some(_) if to.is_group() => Ok(Ruling::Everyone),
            Some(_) => Ok(Ruling::Control(Control::Beacon(*beacon))),
            None => Ok(Ruling::Claim(beacon.name)),
        }
    }
}

/// The change that a control frame makes to the flows: it opens one, or ends one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowNews {
    /// The frame's sender opens this flow to its receiver.
    Opened(Flow, u16),
    /// The frame's sender ends this flow of its own.
    Ended(Flow, u16),
}

/// The flow that a frame to a port opens or ends. `None` for every other frame.
#[inline]
pub fn flow_news(frame: &[u8], own: EtherType) -> Option<(Address, FlowNews)> {
    if frame::is_plain_control(frame, own) { read_news(frame, own) } else { None }
}

#[cold]
fn read_news(frame: &[u8], own: EtherType) -> Option<(Address, FlowNews)> {
    let parsed = frame::parse(frame, own).ok().filter(|parsed| parsed.header.kind == Kind::Control)?;
    news_of(&Control::parse(parsed.payload).ok()?).map(|news| (parsed.source, news))
}

/// The flow that a control frame opens or ends for its sender.
pub fn news_of(control: &Control) -> Option<FlowNews> {
    match control {
        Control::Connect(connect) => Some(FlowNews::Opened(connect.offer.flow, connect.offer.nonce)),
        Control::Accept(accept) => Some(FlowNews::Opened(accept.offer.flow, accept.offer.nonce)),
        Control::Close(close) => Some(FlowNews::Ended(close.own, close.own_nonce)),
        Control::Closed(closed) => closed.own.map(|(flow, nonce)| FlowNews::Ended(flow, nonce)),
        _ => None,
    }
}

/// The flow of the receiver that a control frame ends: the frame's sender sends nothing more on that flow.
pub fn ended_by(control: &Control) -> Option<(Flow, u16)> {
    match control {
        Control::Close(close) => Some((close.flow, close.nonce)),
        Control::Closed(closed) => Some((closed.flow, closed.nonce)),
        _ => None,
    }
}
