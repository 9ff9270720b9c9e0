//! Errors of adding and removing peer addresses.

/// Why a peer address cannot be added or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerAddressError {
    /// The link decides which nodes are on it.
    #[error("`{transport}` reaches every node on its link: leave out the peer's address")]
    Needless {
        /// The transport.
        transport: String,
    },
    /// The text is no address of this transport.
    #[error("`{place}` is no address: write {example}, for instance")]
    NoPlace {
        /// The text.
        place: String,
        /// An example of an address.
        example: &'static str,
    },
    /// No peer of this transport can have the address.
    #[error("`{place}` is no peer's address: {why}")]
    NoPeer {
        /// The place.
        place: String,
        /// Why, and what to write instead.
        why: String,
    },
    /// There is no room for another address.
    #[error("{known} peer addresses are known, and there is no room for more: remove some")]
    TooMany {
        /// How many are known.
        known: usize,
    },
    /// The system refused.
    #[error("`{place}` cannot be reached: {why}")]
    System {
        /// The place.
        place: String,
        /// What the system says, and what to do.
        why: String,
    },
}
