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
//!     │ Close ────────────────────────────────▶│   this has arrived, nothing else will be taken
//!     │◀────────────────────────────── Closed  │   and this of yours
//! ```

pub use crate::close::{Close, CloseCause, Closed, FinalAck, FinalAcks};
use crate::codec::{Field, by_code, carried, fields, put_bytes};
pub use crate::name::Name;
use crate::{Address, Flow, Framing, Framings, Reason, Seq};

/// Identifies a node for as long as it exists, whatever its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The id of the node with this name: its FNV-1a hash. It stays the same from run to run.
    pub fn of(name: &Name) -> NodeId {
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        NodeId(name.as_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold))
    }
}

/// One run of a node. It grows from start to start, so frames of an earlier run can be recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

/// A node introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// Who.
    pub node: NodeId,
    /// The run.
    pub incarnation: Incarnation,
    /// Its name.
    pub name: Name,
    /// Where frames for it go.
    pub address: Address,
    /// The framings that it understands.
    pub framings: Framings,
    /// The longest frame that it can receive, in bytes from the destination address on.
    pub max_frame: u32,
    /// Why it is sent.
    pub purpose: Purpose,
}

/// Why a beacon is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// The node announces itself.
    Announce = 0,
    /// It wants to be answered with a beacon.
    Ask = 1,
    /// A heartbeat, sent for the node: its process lives, and its program does not poll.
    Heartbeat = 2,
}

/// One side's half of a flow at set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowParameters {
    /// Put this flow id on frames to me.
    pub flow: Flow,
    /// And this nonce, where the framing carries one.
    pub nonce: u16,
    /// By class: the number of the first message that I will send.
    pub first: [Seq; 2],
    /// By class: how many messages you may send before I give more credit.
    pub credits: [u16; 2],
    /// The longest frame that I can receive, and that reaches you from me.
    pub max_frame: u32,
    /// The longest payload that I accept in one message; what does not fit a frame comes in [segments](crate::long).
    pub max_message: u32,
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
    /// The tag that it has to have (AM-II's message tags).
    pub tag: u64,
    /// How the flow is set up.
    pub flags: ConnectFlags,
    /// The asking side's half.
    pub offer: FlowParameters,
}

/// How a flow is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectFlags {
    /// Messages are handled in the order in which they were sent, in both directions.
    pub is_ordered: bool,
    /// The first member of a group takes the peer itself, because the member that it named did not answer the peer.
    pub no_redirect: bool,
}

impl ConnectFlags {
    /// In order, and by any member.
    pub const ORDERED: ConnectFlags = ConnectFlags { is_ordered: true, no_redirect: false };

    fn bits(self) -> u8 {
        u8::from(self.is_ordered) | u8::from(self.no_redirect) << 1
    }

    fn from_bits(bits: u8) -> Option<ConnectFlags> {
        (bits < 4).then_some(ConnectFlags { is_ordered: bits & 1 != 0, no_redirect: bits & 2 != 0 })
    }
}

/// The flow is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The attempt.
    pub id: u32,
    /// The accepting side's half.
    pub offer: FlowParameters,
}

/// The flow is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// The attempt.
    pub id: u32,
    /// Why.
    pub why: Refusal,
}

/// Why a flow was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no endpoint of that name.
    NoEndpoint,
    /// The endpoint has another tag.
    Tag,
    /// No flow id or no credit is left.
    Full,
    /// Another live node has the name of the one that asks, and counts as the one of that name. Where it answers no
    /// question, the id is the low half of the incarnation that is meant.
    Name,
    /// The node is the first of a group: ask the [member](Name::member) with this number, 1 to [`Refusal::MAX_MEMBER`].
    Member(u8),
}

impl Refusal {
    /// The largest number of a member.
    pub const MAX_MEMBER: u8 = 127;

    const fn code(self) -> u8 {
        match self {
            Refusal::NoEndpoint => 1,
            Refusal::Tag => 2,
            Refusal::Full => 3,
            Refusal::Name => 4,
            Refusal::Member(member) => 0x80 | member,
        }
    }

    const fn of_code(code: u8) -> Option<Refusal> {
        match code {
            1 => Some(Refusal::NoEndpoint),
            2 => Some(Refusal::Tag),
            3 => Some(Refusal::Full),
            4 => Some(Refusal::Name),
            0x81.. => Some(Refusal::Member(code & 0x7f)),
            _ => None,
        }
    }
}

/// A keepalive: the flow has been quiet for long, or the sender has used all its credit. A node that does not know the
/// flow answers with [`Closed`], another with an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The receiver's flow id.
    pub flow: Flow,
    /// And its nonce.
    pub nonce: u16,
    /// The sender's flow id, for the answer.
    pub own: Flow,
    /// And its nonce.
    pub own_nonce: u16,
}

/// A frame that shows what the network between two nodes lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The number of this round of probes.
    pub id: u32,
    /// Who probes.
    pub node: NodeId,
    /// Which of the probes it is.
    pub step: Step,
}

/// The probes of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Step {
    /// Sent with a header for a source address: arrives if the network lets forged sources through.
    Forged = 1,
    /// Sent *to* that source address. A switch that has learned it keeps the frame, so it arrives only if nothing
    /// learns.
    Learned = 2,
    /// Sent as every other control frame: shows that the peer answers now, so silence on the other probes means
    /// something.
    True = 3,
    /// The same, padded to the longest frame: arrives if nothing cuts or loses long frames.
    Long = 4,
}

/// Which probes arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSeen {
    /// The round.
    pub id: u32,
    /// The probe that arrived.
    pub step: Step,
}

/// A node leaves, after all its flows are closed. Whoever reads this asks it once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Who.
    pub node: NodeId,
    /// The run that ends.
    pub incarnation: Incarnation,
}

macro_rules! messages {
    ($($code:literal $message:ident)*) => {
        /// The body of a control frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is documented at the type that it holds")]
        pub enum Control { $($message($message),)* }

        impl Field for Control {
            fn put(&self, to: &mut &mut [u8]) {
                match self {
                    $(Control::$message(message) => {
                        put_bytes(to, &[$code]);
                        message.put(to);
                    })*
                }
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                match u8::take(from)? {
                    $($code => Field::take(from).map(Control::$message),)*
                    _ => None,
                }
            }
        }
    };
}

messages! { 1 Beacon 2 Connect 3 Accept 4 Refuse 5 Close 6 Probe 7 ProbeSeen 8 Keepalive 9 Closed 10 Leave } // by their codes

// In the order of `docs/wire.md`.
fields! {
    NodeId { 0 }
    Incarnation { 0 }
    FlowParameters { flow nonce first credits max_frame max_message }
    FinalAck { before sack }
    FinalAcks { cause classes }
    Beacon { node incarnation name address framings max_frame purpose }
    Connect { id node incarnation from to tag flags offer }
    Accept { id offer }
    Refuse { id why }
    Close { flow nonce own own_nonce acks }
    Closed { flow nonce own acks }
    Probe { id node step }
    ProbeSeen { id step }
    Keepalive { flow nonce own own_nonce }
    Leave { node incarnation }
}

carried! {
    ConnectFlags as u8: ConnectFlags::bits, ConnectFlags::from_bits;
    Purpose as u8: |purpose| purpose as u8, |code| by_code(&[Purpose::Announce, Purpose::Ask, Purpose::Heartbeat], u32::from(code) + 1);
    Refusal as u8: Refusal::code, Refusal::of_code;
    CloseCause as u8: |cause| cause as u8, |code| by_code(&[CloseCause::Closed, CloseCause::Tag, CloseCause::Name], code.into());
    Step as u8: |step| step as u8, |code| by_code(&[Step::Forged, Step::Learned, Step::True, Step::Long], code.into());
}

/// A half of a flow. Without one there are zeros.
impl Field for Option<(Flow, u16)> {
    fn put(&self, to: &mut &mut [u8]) {
        let (flow, nonce) = self.unwrap_or((Flow::NODE, 0));
        [flow.id(), nonce].put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match <[u16; 2]>::take(from)? {
            [0, 0] => Some(None),
            [0, _] => None,
            [flow, nonce] => Some(Some((Flow::new(flow)?, nonce))),
        }
    }
}

impl Field for Option<FinalAcks> {
    fn put(&self, to: &mut &mut [u8]) {
        self.is_some().put(to);
        self.iter().for_each(|acks| acks.put(to));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if bool::take(from)? { Field::take(from).map(Some) } else { Some(None) }
    }
}

impl Control {
    /// The most bytes that a body takes: a `Connect` between the longest names has 118, and an authentication code.
    pub const MAX_BYTES: usize = 136;
    /// Bytes of the authentication code behind the content, where a segment has a key.
    pub const AUTH_CODE_BYTES: usize = 16;

    /// The longest frame of a set-up, with the longest header. A transport with shorter frames cannot carry a node.
    pub const MAX_FRAME: usize = Framing::Plain.body_at() + Self::MAX_BYTES;

    /// Write the body; returns its length.
    pub fn emit(&self, body: &mut [u8; Self::MAX_BYTES]) -> usize {
        let mut rest = &mut body[..];
        self.put(&mut rest);
        Self::MAX_BYTES - rest.len()
    }

    /// Whether the body may be longer than its content.
    pub fn is_padded(&self) -> bool {
        matches!(self, Control::Probe(Probe { step: Step::Long, .. }))
    }

    /// Read a body, with or without an authentication code: only a node can tell whether the code is right.
    ///
    /// # Errors
    /// [`Reason::Body`] if it is malformed, or followed by anything but a code or the padding of a long probe.
    pub fn parse(body: &[u8]) -> Result<Control, Reason> {
        Control::parse_with_auth_code(body).map(|(control, ..)| control)
    }

    /// The same. Returns the message, its bytes, and what follows: nothing, a code, or padding that starts with one.
    ///
    /// # Errors
    /// As for [`Control::parse`].
    pub fn parse_with_auth_code(body: &[u8]) -> Result<(Control, &[u8], &[u8]), Reason> {
        let mut rest = body;
        let control = Control::take(&mut rest).ok_or(Reason::Body)?;
        let is_good = matches!(rest.len(), 0 | Self::AUTH_CODE_BYTES) || control.is_padded();
        if is_good { Ok((control, &body[..body.len() - rest.len()], rest)) } else { Err(Reason::Body) }
    }
}
