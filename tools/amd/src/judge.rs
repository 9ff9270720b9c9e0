//! What a port may send. A frame, or its head, is judged in the daemon's own copy.
//!
//! ```text
//!   frame ─▶ a route? ─▶ own source? ─▶ a message: flow granted by this destination? ──▶ to the destination
//!                                        └▶ control:   own name and address?             ──▶ to it, or to all
//! ```
//!
//! A control frame is checked for what a receiver believes without asking: the node, the name and the address that the frame
//! claims. The rest a receiver compares with the frame's source, which is the port's own: an Accept, a Close or a Closed from
//! another address than the flow's peer changes nothing.
//!
//! Of a message only destination, source and flow are read. The rest concerns nobody but the receiver, which granted the flow and checks the
//! frame as it checks those of the wire. Most frames have these in common with the one before, so three comparisons pass them.

use am_wire::control::{Beacon, Control, Name, NodeId, Step};
use am_wire::frame::{self, ETHERNET_HEADER};
use am_wire::{Address, EtherType, Flow, Framing, Kind, Route};

use crate::grants::Grants;

/// Why a frame is refused. The counters have these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// Its bytes are no frame, or the lane no record.
    Malformed,
    /// Another EtherType.
    ForeignEthertype,
    /// A source address that is not the port's.
    BadSource,
    /// Another node's name, id or address.
    BadName,
    /// A destination that does not fit the frame: the port itself, or a group for a frame that goes to one node.
    BadDestination,
    /// A flow that its receiver did not grant to this port.
    NotGranted,
    /// A frame for all nodes, after many others.
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

/// A frame that may pass, if the switch agrees.
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

/// What a port is and may do.
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

/// The destination of a frame, and of a frame that is too short to have one, no address.
#[inline]
pub fn destination(frame: &[u8]) -> Address {
    frame.first_chunk().map_or(Address([0; 6]), |bytes| Address(*bytes))
}

/// The EtherType of a frame; 0 where it is too short.
#[inline]
pub fn ethertype(frame: &[u8]) -> u16 {
    frame.first_chunk::<ETHERNET_HEADER>().map_or(0, |header| u16::from_be_bytes([header[12], header[13]]))
}

impl Guard {
    /// The guard of a port without a name and without flows. `random` as for [`Grants::new`].
    pub fn new(address: Address, ethertype: EtherType, random: u64) -> Guard {
        let probe = frame::split_source(Flow::NODE, address);
        Guard { address, probe, ethertype, name: None, grants: Grants::new(random) }
    }

    /// The port's address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The name of its node, if it has said it.
    pub fn name(&self) -> Option<Name> {
        self.name.map(|(_, name)| name)
    }

    /// The port's node has this name from now on.
    pub fn set_name(&mut self, name: Name) {
        self.name = Some((NodeId::of(&name), name));
    }

    /// Judge a frame that the port sends.
    ///
    /// # Errors
    /// Why it must not pass.
    #[inline]
    pub fn judge(&mut self, frame: &[u8]) -> Result<Ruling, Refusal> {
        if self.grants.allows_same(frame) { Ok(Ruling::Granted) } else { self.judge_any(frame) }
    }

    /// The general case.
    fn judge_any(&mut self, frame: &[u8]) -> Result<Ruling, Refusal> {
        let (to, found) = (destination(frame), ethertype(frame));
        if found != self.ethertype.hidden() && found != self.ethertype.plain() {
            return Err(Refusal::ForeignEthertype);
        }
        let route = Route::of(frame, self.ethertype).map_err(|_| Refusal::Malformed)?;
        let source = match route.framing {
            Framing::Plain => self.address,
            Framing::Split => frame::split_source(route.flow, self.address),
            // The whole source is the header.
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
        // One probe asks whether a frame with a header for its source arrives.
        let is_forged = matches!(control, Control::Probe(probe) if probe.step == Step::Forged);
        if parsed.framing != Framing::Plain && !(is_forged && parsed.framing == Framing::Split) {
            return Err(Refusal::BadSource);
        }
        match control {
            Control::Beacon(beacon) => return self.judge_beacon(&beacon, to),
            Control::Connect(connect) => own(connect.node)?,
            Control::Probe(probe) => own(probe.node)?,
            // A node may report another one as silent: all who hear it ask that one.
            Control::Leave(_) if to.is_group() => return Ok(Ruling::Everyone),
            _ => (),
        }
        let is_learned = matches!(control, Control::Probe(probe) if probe.step == Step::Learned);
        match () {
            () if is_learned && to == self.probe => Ok(Ruling::Everyone),
            // Only a probe goes to no node's address.
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

/// What a control frame says about flows: which are open from now on, and which are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowNews {
    /// The frame's sender opens this flow to its receiver.
    Opened(Flow, u16),
    /// The frame's sender ends this flow of its own.
    Ended(Flow, u16),
}

/// What a frame to a port says about the flows of its sender. `None` for every frame that is no set-up with a true source.
#[inline]
pub fn flow_news(frame: &[u8], own: EtherType) -> Option<(Address, FlowNews)> {
    if frame::is_plain_control(frame, own) { read_news(frame, own) } else { None }
}

#[cold]
fn read_news(frame: &[u8], own: EtherType) -> Option<(Address, FlowNews)> {
    let parsed = frame::parse(frame, own).ok().filter(|parsed| parsed.header.kind == Kind::Control)?;
    news_of(&Control::parse(parsed.payload).ok()?).map(|news| (parsed.source, news))
}

/// What a control frame says about the flows of its sender.
pub fn news_of(control: &Control) -> Option<FlowNews> {
    match control {
        Control::Connect(connect) => Some(FlowNews::Opened(connect.offer.flow, connect.offer.nonce)),
        Control::Accept(accept) => Some(FlowNews::Opened(accept.offer.flow, accept.offer.nonce)),
        Control::Close(close) => Some(FlowNews::Ended(close.own, close.own_nonce)),
        Control::Closed(closed) => closed.own.map(|(flow, nonce)| FlowNews::Ended(flow, nonce)),
        _ => None,
    }
}

/// The flow of the receiver that a control frame ends: its sender sends nothing more on it.
pub fn ended_by(control: &Control) -> Option<(Flow, u16)> {
    match control {
        Control::Close(close) => Some((close.flow, close.nonce)),
        Control::Closed(closed) => Some((closed.flow, closed.nonce)),
        _ => None,
    }
}
