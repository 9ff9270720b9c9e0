//! A parsed frame.

use crate::{Address, Framing, Header, Piggyback};

/// A parsed frame; borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedFrame<'a> {
    /// Its framing.
    pub framing: Framing,
    /// The header.
    pub header: Header,
    /// The word arguments, [`WORD_BYTES`](crate::WORD_BYTES) bytes each, network byte order.
    pub words: &'a [u8],
    /// What follows the words: the user's bytes.
    pub payload: &'a [u8],
    /// Acknowledgements in the padding.
    pub piggyback: Option<Piggyback>,
    /// The source address in the frame; the sender's own only in `plain`.
    pub source: Address,
}
