//! The arguments of handlers: a request with the right to reply, a message, a returned message, an event of a connection or a member.

use std::cell::Cell;
use std::fmt;

use am_proto::{Delivery, Fate, Member, MemberChange, ReturnReason, Words};
use am_ring::Frame;
use am_wire::Class;
use derive_where::derive_where;

use crate::{Connection, ConnectionChange, Endpoint, EndpointName, HandlerId, Token};

/// What a request handler gets: the message, and the [`Token`] that replies to it.
///
/// ```
/// use am_api::{Endpoint, HandlerId, Request};
///
/// const ECHO: HandlerId = HandlerId(0);
///
/// fn serve(endpoint: &mut Endpoint<()>) {
///     endpoint.on_request(ECHO, |(), Request { message, token }| {
///         token.reply(ECHO, message.words(), message.payload()).unwrap_or_else(|error| eprintln!("{error}"));
///     });
/// }
/// ```
#[derive_where(Debug)]
pub struct Request<'a, S> {
    /// The message. [`Message::from`] is its connection.
    pub message: Message<'a, S>,
    /// The right to reply. If the handler neither uses nor keeps it, the request gets no reply.
    #[derive_where(skip)]
    pub token: Token,
}

/// A message that has arrived: a view of its frame, borrowed by the handler.
///
/// ```text
///   words()     0 to 4 numbers of 64 bits
///   payload()   bytes, in the memory where the NIC put them
///   from()      the connection on which it arrived: requests may be sent on it
///   endpoint()  the endpoint that received it: handlers send through it
/// ```
#[derive_where(Clone, Copy)]
pub struct Message<'a, S> {
    endpoint: &'a Endpoint<S>,
    pub(crate) delivery: &'a Delivery<Frame>,
    /// Where [`keep`](Message::keep) stores the place of its credit's lease. `None` for a returned message.
    pub(crate) kept: Option<&'a Cell<Option<usize>>>,
    words: Words,
}

impl<'a, S> Message<'a, S> {
    #[inline]
    pub(crate) fn new(
        endpoint: &'a Endpoint<S>,
        delivery: &'a Delivery<Frame>,
        kept: Option<&'a Cell<Option<usize>>>,
    ) -> Self {
        Message { endpoint, delivery, kept, words: delivery.words() }
    }

    /// The word arguments of the message.
    #[inline]
    pub fn words(&self) -> &[u64] {
        self.words.as_slice()
    }

    /// The word argument with this index; 0 if the message has fewer words.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        self.words.at(at)
    }

    /// The payload. Its bytes stay valid while the handler runs; [`keep`](Message::keep) keeps them for longer.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.delivery.payload()
    }

    /// Whether the payload is only the front of what was sent, and the rest lies in the memory that the program has
    /// [named](Endpoint::receive_into) for it. If that was taken back before, the rest is lost, and this is `false`.
    pub fn is_placed(&self) -> bool {
        self.delivery.is_placed()
    }

    /// The handler that it names.
    #[inline]
    pub fn handler(&self) -> HandlerId {
        HandlerId(self.delivery.handler)
    }

    /// The connection on which it arrived.
    #[inline]
    pub fn from(&self) -> Connection {
        Connection(self.delivery.flow)
    }

    /// The endpoint that received it. A handler can do everything with it except poll and set handlers.
    #[inline]
    pub fn endpoint(&self) -> &'a Endpoint<S> {
        self.endpoint
    }
}

impl<S> fmt::Debug for Message<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("handler", &self.handler())
            .field("words", &self.words())
            .field("payload", &Head(self.payload()))
            .finish_non_exhaustive()
    }
}

/// A message of this endpoint that could not be delivered (AM-II's return to sender). [`fate`](Returned::fate) says whether the
/// peer may have handled it, so that sending it again could make it run twice.
#[derive_where(Clone, Copy, Debug)]
pub struct Returned<'a, S> {
    /// The message, as it was sent.
    pub message: Message<'a, S>,
    /// Why it returned.
    pub reason: ReturnReason,
    /// Whether a handler of the peer may have run for it. This is [unknown](Fate::Unknown) only if the message had been sent, and
    /// then the peer crashed, was restarted or became silent.
    pub fate: Fate,
}

impl<S> Returned<'_, S> {
    /// The connection that it was sent on.
    pub fn to(&self) -> Connection {
        self.message.from()
    }

    /// Request or reply.
    pub fn class(&self) -> Class {
        self.message.delivery.class
    }
}

/// What [`Endpoint::on_connection`]'s handler gets.
#[derive_where(Clone, Copy, Debug)]
pub struct ConnectionEvent<'a, S> {
    /// What happened.
    pub change: ConnectionChange,
    /// The connection that it happened to.
    pub connection: Connection,
    /// The endpoint at the other side.
    pub peer: EndpointName,
    /// If the connection ended: how many requests, and how many replies, of this endpoint the peer acknowledged and then dropped
    /// without running a handler, because it left. They are the last ones of those that did not return. A message longer than a
    /// frame always returns.
    pub unhandled: [u32; 2],
    /// The endpoint: handlers send through it.
    #[derive_where(skip)]
    pub endpoint: &'a Endpoint<S>,
}

impl<S> fmt::Display for ConnectionEvent<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = &self.peer;
        match self.change {
            ConnectionChange::Opened => write!(f, "{peer}: open"),
            ConnectionChange::Failed(why) => write!(f, "{peer}: not open: {why}"),
            ConnectionChange::Accepted => write!(f, "{peer}: connected to this endpoint"),
            ConnectionChange::Ended(reason) => write!(f, "{peer}: ended: {reason}"),
        }
    }
}

/// What [`Endpoint::on_members`]'s handler gets.
#[derive_where(Clone, Copy, Debug)]
pub struct MemberEvent<'a, S> {
    /// What happened.
    pub change: MemberChange,
    /// The node. If it left, this describes it before that.
    pub member: Member,
    /// The endpoint: handlers connect and send through it.
    #[derive_where(skip)]
    pub endpoint: &'a Endpoint<S>,
}

impl<S> fmt::Display for MemberEvent<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Member { peer, max_frame, framing } = self.member;
        match self.change {
            MemberChange::Joined => write!(f, "{} joined, at {}", peer.name, peer.address),
            MemberChange::Changed => {
                write!(f, "{} is at {}, frames of {max_frame} bytes", peer.name, peer.address)?;
                framing.map_or(Ok(()), |framing| write!(f, ", {framing} framing"))
            }
            MemberChange::Left(why) => write!(f, "{}: {why}", peer.name),
        }
    }
}

/// The length and the first bytes of a payload, for logs.
pub(crate) struct Head<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_PRINTED: usize = 16;
        let head = &self.0[..self.0.len().min(MAX_PRINTED)];
        write!(f, "{} bytes: {head:02x?}{}", self.0.len(), if head.len() < self.0.len() { " ..." } else { "" })
    }
}
