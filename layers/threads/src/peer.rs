//! Peers, as the handles of an endpoint name them.

use std::time::Duration;

use slotmap::DefaultKey;

/// A peer of a shared endpoint: small, copied freely, a key for maps. It stays the same if its connection is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub(crate) DefaultKey);

/// Whether a connection that failed or ended is opened again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconnect {
    /// Never: whatever is to be sent then fails.
    #[default]
    Never,
    /// When something is to be sent, but not sooner than this after the end. Messages wait meanwhile: requests for ever, calls until
    /// their deadline. Calls that came back and were certainly not handled are sent again.
    After(Duration),
}
