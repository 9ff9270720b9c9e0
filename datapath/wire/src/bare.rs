//! `bare`: the whole header in the 46 free bits of the source address
//! (Directed Point, §4.1).
//!
//! ```text
//!  bit 45 44  43 42  41 … 28  27 … 25   24    23 … 16   15 … 0
//!     version  kind    flow    words   short  handler  sequence
//!        1
//! ```

use crate::Reason;
use crate::header::{Flow, Header, Kind};
use crate::trailer::SHORT;

/// The version bits of the two framings that hide in the source address.
pub(crate) const VERSION: u64 = 1;

/// Bits of a source address that are free: all but the group and the local bit.
pub(crate) const FREE: u32 = 46;

// Version, kind, flow, words, short, handler, sequence.
const _: () = assert!(2 + 2 + Flow::BITS + 3 + 1 + 8 + 16 == FREE);

pub(crate) const GROUP: u64 = 1 << 40;
const LOCAL: u64 = 1 << 41;
const LOW_40: u64 = (1 << 40) - 1;

/// The 46 bits as an address, as a number: group bit 0, local bit 1.
#[inline]
pub(crate) const fn to_source(bits: u64) -> u64 {
    (bits >> 40) << 42 | LOCAL | bits & LOW_40
}

/// The 46 bits of an address, or why it carries none.
#[inline]
pub(crate) const fn from_source(source: u64) -> Result<u64, Reason> {
    if source & (GROUP | LOCAL) != LOCAL {
        return Err(Reason::Source);
    }
    Ok(bits(source))
}

/// The 46 bits of an address that carries them.
#[inline]
pub(crate) const fn bits(source: u64) -> u64 {
    (source >> 42) << 40 | source & LOW_40
}

/// The version bits.
#[inline]
pub(crate) const fn version(bits: u64) -> u64 {
    bits >> 44
}

#[inline]
pub(crate) fn emit(header: &Header, short: bool) -> u64 {
    to_source(
        VERSION << 44
            | (header.kind.field() as u64) << 42
            | (header.flow.id() as u64) << 28
            | (header.words as u64 & 7) << 25
            | (short as u64) << 24
            | (header.kind.code(header.handler) as u64) << 16
            | (header.seq & 0xffff) as u64,
    )
}

/// Kind (2 bits), words (3), short (1), and two bits of zero: the byte in
/// which all framings keep them, `bare` with the flow in between.
#[inline]
pub(crate) fn form(header: &Header, short: bool) -> u8 {
    header.kind.field() << 6 | (header.words & 7) << 3 | if short { SHORT } else { 0 }
}

/// The header of the 46 bits, and the form byte.
#[inline]
pub(crate) fn parse(bits: u64) -> Result<(Header, u8), Reason> {
    let form = ((bits >> 42 & 3) << 6 | (bits >> 24 & 0xf) << 2) as u8;
    let header = read(form, (bits >> 16) as u8, Flow::truncated(bits >> 28), 0, bits as u32 & 0xffff)?;
    Ok((header, form))
}

/// The header of the fields as they were read, in any framing.
#[inline]
pub(crate) fn read(form: u8, code: u8, flow: Flow, nonce: u16, seq: u32) -> Result<Header, Reason> {
    let kind = Kind::from_fields(form >> 6, code).ok_or(Reason::Kind)?;
    let handler = if matches!(kind, Kind::Request | Kind::Reply) { code } else { 0 };
    Ok(Header { kind, flow, nonce, handler, words: form >> 3 & 7, seq })
}
