//! Where a frame goes, decided from its first 60 bytes and its length: the twin of the XDP program (`bpf/steer.bpf.c`),
//! as a pure function. FM 1.0 and AM-II had this in the NIC's firmware.

use crate::frame::{ETHERNET_HEADER, MIN_FRAME, Usual};
use crate::group::{GroupFrame, GroupHeader, JoinedGroups};
use crate::header::{Flow, Kind};
use crate::length::{NARROW, WIDE};
use crate::payload::{SPLIT_VERSION, split_flow};
use crate::{Address, AddressSet, EtherType, Reason, bare, group_header, payload};

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Not ours: passed to the kernel's stack.
    Pass(PassReason),
    /// Ours and malformed: counted and dropped.
    Drop(Reason),
    /// Ours, for the socket with this index.
    Socket(u8),
    /// Ours, a control frame: for the socket with this index, where [`Gate::pass`](crate::gate::Gate::pass) admits it.
    Control(u8),
    /// A request, several of them, or a segment of a bulk transfer, for a node without room: rejected as in
    /// [`RejectTemplate::reject`](crate::bounce::RejectTemplate::reject), or if that gives nothing, for the socket with this index.
    Bounce(u8),
    /// A group frame to be stamped, of the group at this place among the joined ones. The XDP program [stamps](crate::stamp) it if
    /// the sequencer's table is open there; otherwise it is for the group's socket.
    Sequence(u8),
}

/// Why a frame is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PassReason {
    /// Neither of our EtherTypes: ordinary traffic.
    Foreign,
    /// Our EtherType, but for another host: a switch flooded it.
    OtherHost,
}

/// What steering knows; the XDP program has the same in its maps.
#[derive(Clone, Debug)]
pub struct SteeringTable {
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// This node's true address.
    pub own: Address,
    /// Added addresses: those of nodes behind this one, which decides about flows itself.
    pub added: AddressSet,
    /// The socket that control frames go to, and all frames to an added address.
    pub node_socket: u8,
    /// The groups that this node has joined, with their sockets.
    pub groups: JoinedGroups,
    /// By flow id: the socket's index plus one, or 0 for an unknown flow.
    pub flows: [u8; Flow::COUNT],
    /// No room for requests: they bounce on flows with a reject template.
    pub full: bool,
    /// A bit for each flow with a reject template.
    pub ways_back: [u64; Flow::COUNT / 64],
}

impl SteeringTable {
    /// Whether a flow has a reject template.
    pub const fn has_reject_template(&self, flow: Flow) -> bool {
        self.ways_back[flow.index() / 64] >> (flow.index() % 64) & 1 == 1
    }

    /// A table without flows; control frames go to socket 0.
    pub const fn new(ethertype: EtherType, own: Address) -> Self {
        SteeringTable {
            ethertype,
            own,
            added: AddressSet::new(),
            node_socket: 0,
            groups: JoinedGroups::new(),
            flows: [0; Flow::COUNT],
            full: false,
            ways_back: [0; Flow::COUNT / 64],
        }
    }
}

/// Decide. Never panics, whatever the bytes.
///
/// The checks in their order: foreign EtherType, other host's address, too short, no header in the source address,
/// unknown version, unknown kind, a probe's address without a probe, misuse of flow 0, another length than the header
/// says, unknown flow; for a group frame words, no group header, unknown group. [`frame::parse`](crate::frame::parse) checks the rest.
///
/// A frame to the address with which discovery probes is ours only on flow 0, because another host may really have a
/// similar address. A frame to an added address goes to the node's socket, whatever its flow.
#[inline]
pub fn steer(frame: &[u8], table: &SteeringTable) -> Decision {
    match find_usual(frame, table) {
        Some(usual) => to_flow(usual.flow, !usual.is_reply, table),
        None => steer_any(frame, table),
    }
}

/// Whether this is a usual message on a known flow: [`steer`] finds its socket, or bounces it. The two are of the same node.
#[inline]
pub fn is_usual(frame: &[u8], short: &ShortMessages, table: &SteeringTable) -> bool {
    let found = frame.try_into().ok().and_then(|frame| short.flow(frame));
    let flow = found.or_else(|| find_usual(frame, table).map(|usual| usual.flow));
    flow.is_some_and(|flow| table.flows[flow.index()] != 0)
}

/// What all short messages to one node have in common in `split`. They are the most frequent frames.
#[derive(Clone, Copy, Debug)]
pub struct ShortMessages {
    /// The destination, and the bits of the source address that say that it is one of `split`.
    start: u64,
    /// The EtherType, and nothing of what a short message has not.
    middle: u64,
}

impl ShortMessages {
    const START: u64 = Self::start(Address([0xff; 6]), payload::IS_SPLIT);
    const MIDDLE: u64 = Self::middle(u16::MAX, payload::NOT_SHORT);

    /// Those to this node.
    pub const fn new(ethertype: EtherType, own: Address) -> Self {
        ShortMessages { start: Self::start(own, payload::SPLIT), middle: Self::middle(ethertype.hidden(), 0) }
    }

    /// The first eight bytes of a frame as a number, with the first byte of the source address.
    const fn start(Address([a, b, c, d, e, f]): Address, source: u64) -> u64 {
        u64::from_le_bytes([a, b, c, d, e, f, (source >> 40) as u8, 0])
    }

    /// The eight bytes from the EtherType on as a number.
    const fn middle(ethertype: u16, rest: u64) -> u64 {
        let ([a, b], [c, d, e, f, g, h, ..]) = (ethertype.to_be_bytes(), rest.to_be_bytes());
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// The flow of a frame that is one of them.
    #[inline(always)]
    fn flow(&self, frame: &[u8; MIN_FRAME]) -> Option<Flow> {
        let number = |at: usize| frame[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let is_one = number(0)? & Self::START == self.start && number(12)? & Self::MIDDLE == self.middle;
        // Its last two bytes have nothing of the flow.
        let source = u64::from(u32::from_be_bytes(*frame[6..].first_chunk()?)) << 16;
        let flow = payload::source_flow(source);
        (is_one && flow != Flow::NODE).then_some(flow)
    }
}

/// Whether this is the frame's destination.
#[inline(always)]
fn is_to(frame: &[u8; MIN_FRAME], own: Address) -> bool {
    // As two numbers: compilers make one of six bytes first.
    let parts = |[a, b, c, d, e, f]: [u8; 6]| (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]));
    let [a, b, c, d, e, f, ..] = *frame;
    let (to, own) = (parts([a, b, c, d, e, f]), parts(own.0));
    (to.0 ^ own.0) | u32::from(to.1 ^ own.1) == 0
}

/// The fields of a usual message. Of a frame that may be malformed there are none: the general case finds what is wrong with it.
#[inline(always)]
fn find_usual(frame: &[u8], table: &SteeringTable) -> Option<Usual> {
    let smallest = frame.first_chunk::<MIN_FRAME>().filter(|smallest| is_to(smallest, table.own))?;
    let usual = Usual::find(smallest, table.ethertype)?;
    (usual.flow != Flow::NODE && usual.fits(frame.len())).then_some(usual)
}

/// The general case.
pub(crate) fn steer_any(frame: &[u8], table: &SteeringTable) -> Decision {
    let Some(ethernet) = frame.first_chunk::<ETHERNET_HEADER>() else {
        return Decision::Pass(PassReason::Foreign);
    };
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *ethernet;
    let kind = u16::from_be_bytes([t0, t1]);
    if kind != table.ethertype.hidden() && kind != table.ethertype.plain() {
        return Decision::Pass(PassReason::Foreign);
    }
    let (to, source) = (Address([d0, d1, d2, d3, d4, d5]), Address([s0, s1, s2, s3, s4, s5]));
    if to != table.own && !to.is_group() {
        return steer_elsewhere(frame, to, source, kind, table);
    }
    match find(frame, source, kind, table) {
        Ok(found) if found.kind == Kind::Group => to_group(frame, &found, table).unwrap_or_else(Decision::Drop),
        Ok(found) => to_socket(&found, table),
        Err(reason) => Decision::Drop(reason),
    }
}

/// A frame to another address than the node's own: an added one, that of a probe, or another host's.
#[cold]
fn steer_elsewhere(frame: &[u8], to: Address, source: Address, kind: u16, table: &SteeringTable) -> Decision {
    let is_added = table.added.contains(to);
    if !is_added && !is_probe(to) {
        return Decision::Pass(PassReason::OtherHost);
    }
    match find(frame, source, kind, table) {
        Ok(found) if is_added => to_node(&found, table),
        Ok(found) if found.flow != Flow::NODE || found.kind == Kind::Group => Decision::Pass(PassReason::OtherHost),
        Ok(found) => to_socket(&found, table),
        Err(reason) => Decision::Drop(reason),
    }
}

/// The address with which discovery finds out whether the network learns: the `split` source of flow 0, of any sender.
#[inline]
fn is_probe(to: Address) -> bool {
    bare::from_source(to.to_u64())
        .is_ok_and(|bits| bare::version(bits) == SPLIT_VERSION && split_flow(bits) == Flow::NODE)
}

/// The parts of the header that steering needs.
struct Found {
    kind: Kind,
    flow: Flow,
    /// Whether the frame has the length that its header gives.
    fits: bool,
}

/// The header of a frame with one of our EtherTypes.
#[inline(always)]
fn find(frame: &[u8], source: Address, kind: u16, table: &SteeringTable) -> Result<Found, Reason> {
    let smallest = frame.first_chunk::<MIN_FRAME>().ok_or(Reason::Short)?;
    if kind == table.ethertype.plain() {
        find_plain(smallest, frame.len())
    } else {
        find_hidden(smallest, source, frame.len())
    }
}

fn find_plain(frame: &[u8; MIN_FRAME], length: usize) -> Result<Found, Reason> {
    let (rest, _) = frame[ETHERNET_HEADER..].split_first_chunk::<12>().ok_or(Reason::Short)?;
    payload::plain_version(rest)?;
    let kind = payload::plain_kind(rest[1], rest[4])?;
    Ok(Found {
        kind,
        flow: payload::plain_flow(rest)?,
        fits: WIDE.fits(payload::length_code(rest[1], rest[5]), length),
    })
}

fn find_hidden(frame: &[u8; MIN_FRAME], source: Address, length: usize) -> Result<Found, Reason> {
    let bits = bare::from_source(source.to_u64())?;
    if bare::is_bare(bits) {
        return Ok(Found {
            kind: bare::kind(bits)?,
            flow: bare::flow(bits),
            fits: NARROW.fits(bare::length_code(bits), length),
        });
    }
    if bare::version(bits) != SPLIT_VERSION {
        return Err(Reason::Version);
    }
    let (rest, _) = frame[ETHERNET_HEADER..].split_first_chunk::<8>().ok_or(Reason::Short)?;
    let kind = payload::kind(rest[0], rest[1])?;
    Ok(Found { kind, flow: split_flow(bits), fits: WIDE.fits(payload::length_code(rest[0], rest[4]), length) })
}

#[inline]
fn to_socket(found: &Found, table: &SteeringTable) -> Decision {
    let Found { kind, flow, fits } = *found;
    if (kind == Kind::Control) != (flow == Flow::NODE) {
        return Decision::Drop(Reason::NodeFlow);
    }
    if !fits {
        return Decision::Drop(Reason::Length);
    }
    if flow == Flow::NODE {
        return Decision::Control(table.node_socket);
    }
    to_flow(flow, kind.is_request(), table)
}

/// A frame of a group.
#[cold]
fn to_group(frame: &[u8], found: &Found, table: &SteeringTable) -> Result<Decision, Reason> {
    if found.flow != Flow::NODE {
        return Err(Reason::NodeFlow);
    }
    if !found.fits {
        return Err(Reason::Length);
    }
    group_header::check(payload::words(frame[ETHERNET_HEADER + 1]), frame)?;
    let (header, _) = GroupHeader::parse(frame)?;
    let (place, socket) = table.groups.find(header.group).ok_or(Reason::NoGroup)?;
    Ok(if header.what == GroupFrame::ToStamp { Decision::Sequence(place as u8) } else { Decision::Socket(socket) })
}

/// A frame to an added address, behind which no group is served.
fn to_node(found: &Found, table: &SteeringTable) -> Decision {
    let Found { kind, flow, fits } = *found;
    if (kind == Kind::Control) != (flow == Flow::NODE) {
        return Decision::Drop(Reason::NodeFlow);
    }
    match kind {
        Kind::Group => Decision::Drop(Reason::NodeFlow),
        _ if !fits => Decision::Drop(Reason::Length),
        Kind::Control => Decision::Control(table.node_socket),
        _ => Decision::Socket(table.node_socket),
    }
}

#[inline(always)]
fn to_flow(flow: Flow, is_request: bool, table: &SteeringTable) -> Decision {
    match table.flows[flow.index()] {
        0 => Decision::Drop(Reason::NoFlow),
        socket if table.full && is_request && table.has_reject_template(flow) => Decision::Bounce(socket - 1),
        socket => Decision::Socket(socket - 1),
    }
}
