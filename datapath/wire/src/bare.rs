//! `bare`: the whole header in the 46 free bits of the source address
//! (Directed Point, §4.1).
//!
//! ```text
//!  bit 45   44 … 41  40 … 27  26 … 19  18 … 12  11 … 0
//!    version  form     flow   handler   length  sequence
//!       0
//! ```
//!
//! The form is the kind and the number of words: 0 to 5 a request with this number of
//! words, 8 to 13 a reply, 7 an extended kind, which the handler field names.

use crate::header::{Class, Flow, HEAD_WORDS, Header, Kind};
use crate::{Framing, Reason};

/// Bits of a source address that are free: all but the group and the local bit.
pub(crate) const FREE: u32 = 46;

const SEQ_BITS: u32 = Framing::Bare.seq_bits();

const LENGTH_BITS: u32 = 7;
const CODE_BITS: u32 = 8;
const FORM_BITS: u32 = 4;

const LENGTH_AT: u32 = SEQ_BITS;
const CODE_AT: u32 = LENGTH_AT + LENGTH_BITS;
const FLOW_AT: u32 = CODE_AT + CODE_BITS;
const FORM_AT: u32 = FLOW_AT + Flow::BITS;

// Before the form: one bit of version.
const _: () = assert!(FORM_AT + FORM_BITS + 1 == FREE);

const REPLY: u64 = 8;
const EXTENDED: u64 = 7;

const GROUP: u64 = 1 << 40;
const LOCAL: u64 = 1 << 41;
/// The bits of a source address that are not free.
pub(crate) const FIXED: u64 = GROUP | LOCAL;
const LOW_40: u64 = (1 << 40) - 1;

/// The bits of a source address that say that a frame is `bare`, and its flow.
pub(crate) const ROUTE: u64 = to_source(1 << (FREE - 1) | (Flow::COUNT as u64 - 1) << FLOW_AT) | GROUP | LOCAL;

/// The 46 bits as an address, as a number: group bit 0, local bit 1.
#[inline]
pub(crate) const fn to_source(bits: u64) -> u64 {
    (bits >> 40) << 42 | LOCAL | bits & LOW_40
}

/// The 46 bits of an address, or why it carries no header.
#[inline]
pub(crate) const fn from_source(source: u64) -> Result<u64, Reason> {
    if source & FIXED != LOCAL {
        return Err(Reason::Source);
    }
    Ok(bits(source))
}

/// The 46 bits of an address that carries a header.
#[inline]
pub(crate) const fn bits(source: u64) -> u64 {
    (source >> 42) << 40 | source & LOW_40
}

/// The version bits of both framings that hide in the source address: `bare`
/// has those whose upper bit is clear, [`split`](crate::split) has one.
#[inline]
pub(crate) const fn version(bits: u64) -> u64 {
    bits >> 44
}

#[inline]
pub(crate) const fn is_bare(bits: u64) -> bool {
    bits >> (FREE - 1) == 0
}

/// The source address of a flow's messages, without [what differs](message) between them.
pub(crate) const fn source_of(flow: Flow) -> u64 {
    to_source((flow.id() as u64) << FLOW_AT)
}

/// What a short message adds to the source address of its flow. The code of its length is 0.
#[inline(always)]
pub(crate) const fn message(class: Class, words: u8, handler: u8, seq: u32) -> u64 {
    let form = (class as u64) << 3 | words as u64;
    // The form is above bit 40, and so two bits higher in an address.
    form << (FORM_AT + 2) | (handler as u64) << CODE_AT | (seq & ((1 << SEQ_BITS) - 1)) as u64
}

/// Class, words and handler of a short message; `None` if these bits are of anything else.
#[inline(always)]
pub(crate) const fn short_message(bits: u64) -> Option<(Class, u8, u8)> {
    if !is_bare(bits) || !is_message(bits) || length_code(bits) != 0 {
        return None;
    }
    Some((if is_reply(bits) { Class::Reply } else { Class::Request }, words(bits), code(bits)))
}

/// The number in these bits.
pub(crate) const FORESEEN: u64 = (1 << SEQ_BITS) - 1;

#[inline]
pub(crate) fn emit(header: &Header, length_code: u16) -> u64 {
    to_source(
        form(header) << FORM_AT
            | (header.flow.id() as u64) << FLOW_AT
            | (header.kind.code(header.handler) as u64) << CODE_AT
            | (length_code as u64) << LENGTH_AT
            | (header.seq & ((1 << SEQ_BITS) - 1)) as u64,
    )
}

#[inline]
fn form(header: &Header) -> u64 {
    // More words than the limit make an unknown form.
    let words = header.words.min(HEAD_WORDS as u8 + 1) as u64;
    match header.kind {
        Kind::Request => words,
        Kind::Reply => REPLY | words,
        _ => EXTENDED,
    }
}

/// Whether these bits are a request's or a reply's.
#[inline(always)]
pub(crate) const fn is_message(bits: u64) -> bool {
    bits >> FORM_AT & (REPLY - 1) <= HEAD_WORDS as u64
}

#[inline(always)]
pub(crate) const fn is_reply(bits: u64) -> bool {
    bits >> FORM_AT & REPLY != 0
}

#[inline(always)]
pub(crate) const fn words(bits: u64) -> u8 {
    (bits >> FORM_AT & (REPLY - 1)) as u8
}

#[inline(always)]
pub(crate) const fn flow(bits: u64) -> Flow {
    Flow::truncated(bits >> FLOW_AT)
}

#[inline(always)]
pub(crate) const fn code(bits: u64) -> u8 {
    (bits >> CODE_AT) as u8
}

#[inline(always)]
pub(crate) const fn seq(bits: u64) -> u32 {
    bits as u32 & ((1 << SEQ_BITS) - 1)
}

#[inline(always)]
pub(crate) const fn length_code(bits: u64) -> u16 {
    (bits >> LENGTH_AT) as u16 & ((1 << LENGTH_BITS) - 1)
}

/// The kind, or why there is none.
#[inline]
pub(crate) fn kind(bits: u64) -> Result<Kind, Reason> {
    let form = bits >> FORM_AT & ((1 << FORM_BITS) - 1);
    let field = match form {
        EXTENDED => 2,
        _ if !is_message(bits) => return Err(Reason::Kind),
        _ => (form / REPLY) as u8,
    };
    Kind::from_fields(field, code(bits)).ok_or(Reason::Kind)
}

#[inline]
pub(crate) fn parse(bits: u64) -> Result<Header, Reason> {
    let kind = kind(bits)?;
    let (handler, words) = match kind {
        Kind::Request | Kind::Reply => (code(bits), words(bits)),
        _ => (0, 0),
    };
    Ok(Header { kind, flow: flow(bits), nonce: 0, handler, words, seq: seq(bits) })
}
