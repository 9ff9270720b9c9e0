//! Where a message goes: the peer's endpoint, and the handler in its table.

use am_proto::FlowId;

/// The other side of a conversation, as this node names it: small, copied
/// freely, a key for maps. It stays valid as a name when the conversation is
/// over; a later one with the same peer has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection(pub(crate) FlowId);

/// Index into the receiving endpoint's table of handlers: what a message names
/// instead of a function. Requests and replies have a table each.
///
/// ```
/// use am_api::HandlerId;
/// const ECHO: HandlerId = HandlerId(0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub u8);
