//! What a frame is taken apart into.

use crate::{Address, Framing, Header, Piggyback};

/// A frame taken apart; borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// How it carried its header.
    pub framing: Framing,
    /// The header.
    pub header: Header,
    /// The word arguments, [`WORD`](crate::WORD) bytes each, network byte order.
    pub words: &'a [u8],
    /// What follows the words: the user's bytes.
    pub payload: &'a [u8],
    /// Acknowledgements that rode in the padding.
    pub piggyback: Option<Piggyback>,
    /// The source address as it stands; the sender's own only in `plain`.
    pub source: Address,
}
