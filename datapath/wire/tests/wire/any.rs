//! Any frame that can be built, and how the tests write and read it.

use am_wire::control::{
    Accept, Beacon, Close, CloseCause, Closed, Connect, ConnectFlags, Control, FinalAck, FinalAcks, FlowParameters,
    Incarnation, Keepalive, Leave, Name, NodeId, Probe, ProbeSeen, Purpose, Refusal, Refuse, Step,
};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{
    Address, Class, EtherType, Flow, Framing, Framings, HEAD_WORDS, Header, Kind, Piggyback, PiggybackClass, Seq,
    WORD_BYTES,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Longer than any frame that the tests write.
const SPACE: usize = 9_100;

/// What is in the memory before a frame is written: the tests look for it afterwards.
pub(crate) const STALE: u8 = 0xa5;

/// All arguments of [`frame::emit`].
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) framing: Framing,
    pub(crate) link: LinkAddresses,
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) piggyback: Option<Piggyback>,
}

impl Message {
    /// The frame, written into memory that held something else before.
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut space = vec![STALE; SPACE];
        let body = frame::body(&mut space, self.framing, self.body.len());
        body.expect("there is space").copy_from_slice(&self.body);
        let length =
            frame::emit(&mut space, self.framing, &self.link, &self.header, self.body.len(), self.piggyback.as_ref())
                .expect("there is space");
        assert!(space[length..].iter().all(|&byte| byte == STALE), "written past the frame");
        space.truncate(length);
        space
    }

    /// The header as its framing brings it over.
    pub(crate) fn arriving(&self) -> Header {
        match self.framing {
            Framing::Bare => Header { nonce: 0, seq: self.header.seq & 0xfff, ..self.header },
            Framing::Split => Header { seq: self.header.seq & 0xff_ffff, ..self.header },
            Framing::Plain => self.header,
        }
    }
}

pub(crate) fn framing() -> impl Strategy<Value = Framing> {
    prop::sample::select(&Framing::ALL[..])
}

pub(crate) fn address() -> impl Strategy<Value = Address> {
    any::<[u8; 6]>().prop_map(Address)
}

/// A flow that was set up.
pub(crate) fn flow() -> impl Strategy<Value = Flow> {
    (1..Flow::COUNT as u16).prop_map(|id| Flow::new(id).expect("14 bits"))
}

pub(crate) fn ethertype() -> impl Strategy<Value = EtherType> {
    (0x0600u16..0xffff).prop_map(|hidden| EtherType::new(hidden).expect("in range"))
}

pub(crate) fn link() -> impl Strategy<Value = LinkAddresses> {
    (address(), address(), ethertype()).prop_map(|(to, from, ethertype)| LinkAddresses { to, from, ethertype })
}

/// A header that [`frame::parse`] gives back: control frames on flow 0, no
/// handler where none is carried.
pub(crate) fn header() -> impl Strategy<Value = Header> {
    let coalesced = Class::ALL.map(Kind::Coalesced);
    let kinds = [Kind::Request, Kind::Reply, Kind::Ack, Kind::Control, Kind::Reject, Kind::Put, Kind::Get]
        .into_iter()
        .chain(coalesced);
    let kinds = prop::sample::select(kinds.collect::<Vec<_>>());
    (kinds, flow(), any::<(u16, u8, u32)>(), 0..=HEAD_WORDS as u8).prop_map(|(kind, flow, rest, words)| {
        let (nonce, handler, seq) = rest;
        let flow = if kind == Kind::Control { Flow::NODE } else { flow };
        let (handler, words) = if matches!(kind, Kind::Request | Kind::Reply) { (handler, words) } else { (0, 0) };
        Header { kind, flow, nonce, handler, words, seq }
    })
}

pub(crate) fn piggyback() -> impl Strategy<Value = Piggyback> {
    let class = |accepted, limit| PiggybackClass { accepted, limit };
    any::<[u16; 4]>().prop_map(move |[a, b, c, d]| Piggyback::new([class(a, b), class(c, d)]))
}

/// Bodies of every size that matters: around the smallest frame, up to the
/// usual and to the large MTU.
fn body(words: u8) -> impl Strategy<Value = Vec<u8>> {
    let least = words as usize * WORD_BYTES;
    prop_oneof![
        4 => vec(any::<u8>(), least..64),
        2 => vec(any::<u8>(), least..1488),
        1 => vec(any::<u8>(), 1488..8988),
    ]
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    (framing(), link(), header(), option::of(piggyback())).prop_flat_map(|(framing, link, header, piggyback)| {
        body(header.words).prop_map(move |body| Message { framing, link, header, body, piggyback })
    })
}

fn name() -> impl Strategy<Value = Name> {
    "[^\\p{Cc}]{1,31}".prop_filter_map("too many bytes", |text| Name::new(&text))
}

fn offer() -> impl Strategy<Value = FlowParameters> {
    (flow(), any::<(u16, [u32; 2], [u16; 2], u32, u32)>()).prop_map(
        |(flow, (nonce, first, credits, max_frame, max_message))| FlowParameters {
            flow,
            nonce,
            first: first.map(Seq),
            credits,
            max_frame,
            max_message,
        },
    )
}

fn purpose() -> impl Strategy<Value = Purpose> {
    select(&[Purpose::Announce, Purpose::Ask, Purpose::Heartbeat][..])
}

fn beacon() -> impl Strategy<Value = Control> {
    (name(), address(), any::<(u64, u64, u8, u32)>(), purpose()).prop_map(|(name, address, rest, purpose)| {
        let (node, incarnation, framings, max_frame) = rest;
        let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
        let framings = Framings::from_bits(framings);
        Control::Beacon(Beacon { node, incarnation, name, address, framings, max_frame, purpose })
    })
}

fn connect() -> impl Strategy<Value = Control> {
    (any::<(u32, u64, u64, u64, [bool; 2])>(), name(), name(), offer()).prop_map(
        |((id, node, incarnation, tag, [is_ordered, no_redirect]), from, to, offer)| {
            let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
            let flags = ConnectFlags { is_ordered, no_redirect };
            Control::Connect(Connect { id, node, incarnation, from, to, tag, flags, offer })
        },
    )
}

fn final_acks() -> impl Strategy<Value = FinalAcks> {
    (prop::sample::select(&[CloseCause::Closed, CloseCause::Tag, CloseCause::Name][..]), any::<[(u32, u64); 2]>())
        .prop_map(|(cause, classes)| FinalAcks {
            cause,
            classes: classes.map(|(before, sack)| FinalAck { before: Seq(before), sack }),
        })
}

/// Any body of a control frame.
pub(crate) fn control() -> impl Strategy<Value = Control> {
    let refusals =
        [Refusal::NoEndpoint, Refusal::Tag, Refusal::Full, Refusal::Name, Refusal::Member(1), Refusal::Member(127)];
    let refusal = prop::sample::select(refusals.to_vec());
    let step = || prop::sample::select(&[Step::Forged, Step::Learned, Step::True, Step::Long][..]);
    prop_oneof![
        beacon(),
        connect(),
        (any::<u32>(), offer()).prop_map(|(id, offer)| Control::Accept(Accept { id, offer })),
        (any::<u32>(), refusal).prop_map(|(id, why)| Control::Refuse(Refuse { id, why })),
        (flow(), flow(), any::<[u16; 2]>(), final_acks()).prop_map(|(flow, own, [nonce, own_nonce], acks)| {
            Control::Close(Close { flow, nonce, own, own_nonce, acks })
        }),
        (flow(), any::<u16>(), option::of((flow(), any::<u16>())), option::of(final_acks()))
            .prop_map(|(flow, nonce, own, acks)| Control::Closed(Closed { flow, nonce, own, acks })),
        (any::<(u32, u64)>(), step()).prop_map(|((id, node), step)| Control::Probe(Probe {
            id,
            node: NodeId(node),
            step
        })),
        (any::<u32>(), step()).prop_map(|(id, step)| Control::ProbeSeen(ProbeSeen { id, step })),
        (flow(), flow(), any::<[u16; 2]>()).prop_map(|(flow, own, [nonce, own_nonce])| Control::Keepalive(Keepalive {
            flow,
            nonce,
            own,
            own_nonce
        })),
        any::<[u64; 2]>().prop_map(|[node, incarnation]| {
            Control::Leave(Leave { node: NodeId(node), incarnation: Incarnation(incarnation) })
        }),
    ]
}
