//! The framings with a part of the header in the payload.
//!
//! `split`: the part for steering in the source address, the rest in 8 bytes. The address depends on flow and sender
//! only, so a switch learns one a flow.
//!
//! ```text
//!  source, bit 45 44   43 … 30   29 … 0         payload, byte 0   1        2..4   4       5..8
//!              version  flow     origin: low             form  handler  nonce  length  sequence
//!                 3              bits of the
//!                                true address
//! ```
//!
//! `plain`: true source address, the header in 12 bytes of payload.
//!
//! ```text
//!  payload, byte 0     1     2..4    4       5        6..8   8..12
//!             version  form  flow  handler  length    nonce  sequence
//!                2
//! ```
//!
//! The form byte: kind (2 bits), words (3), and the upper three bits of the length's code, whose low eight have a byte of
//! their own.

use crate::bare::{FIXED, FREE, to_source};
use crate::header::{Class, Flow, Header, Kind};
use crate::{Address, Framing, Reason};

const KIND_AT: u32 = 6;
const WORDS_AT: u32 = 3;

pub(crate) const SPLIT_VERSION: u64 = 3;
const PLAIN_VERSION: u8 = 2;
const ORIGIN_BITS: u32 = 30;
/// Bits of the sequence number in `split`.
const SEQ_BITS: u32 = Framing::Split.seq_bits();

// Version, flow, origin; and the payload's part: form, handler, nonce, length, sequence.
const _: () = assert!(2 + Flow::BITS + ORIGIN_BITS == FREE);
const _: () = assert!(1 + 1 + 2 + 1 + SEQ_BITS as usize / 8 == Framing::Split.cost());
// Version, form, flow, handler, length, nonce, sequence.
const _: () = assert!(1 + 1 + 2 + 1 + 1 + 2 + 4 == Framing::Plain.cost());

#[inline]
fn form(header: &Header, length_code: u16) -> u8 {
    header.kind.field() << KIND_AT | (header.words & 7) << WORDS_AT | (length_code >> 8) as u8
}

#[inline]
pub(crate) fn length_code(form: u8, low: u8) -> u16 {
    (form as u16 & 7) << 8 | low as u16
}

/// The kind of a form byte and a handler field, or why they have none.
#[inline]
pub(crate) fn kind(form: u8, code: u8) -> Result<Kind, Reason> {
    Kind::from_fields(form >> KIND_AT, code).ok_or(Reason::Kind)
}

/// The same in `plain` framing.
#[inline]
pub(crate) fn plain_kind(form: u8, code: u8) -> Result<Kind, Reason> {
    Kind::from_plain_fields(form >> KIND_AT, code).ok_or(Reason::Kind)
}

/// The header, from its fields.
#[inline]
fn read(kind: Kind, form: u8, code: u8, flow: Flow, nonce: u16, seq: u32) -> Header {
    let handler = if matches!(kind, Kind::Request | Kind::Reply) { code } else { 0 };
    Header { kind, flow, nonce, handler, words: words(form), seq }
}

/// The source address of a flow's frames in `split`, from the node with this true address.
#[inline]
pub(crate) const fn split_source(flow: Flow, from: Address) -> u64 {
    to_source(SPLIT_VERSION << 44 | (flow.id() as u64) << ORIGIN_BITS | from.to_u64() & ((1 << ORIGIN_BITS) - 1))
}

/// The bits of a source address that say that it is one of `split`, and their mask.
pub(crate) const SPLIT: u64 = to_source(SPLIT_VERSION << 44);
pub(crate) const IS_SPLIT: u64 = SPLIT | FIXED;

/// Whether a source address that carries a header is one of `split`.
#[inline(always)]
pub(crate) const fn is_split(source: u64) -> bool {
    source >> 46 == SPLIT_VERSION
}

/// Whether a form byte is a request's or a reply's.
#[inline(always)]
pub(crate) const fn is_message(form: u8) -> bool {
    form >> KIND_AT <= 1
}

#[inline(always)]
pub(crate) const fn is_reply(form: u8) -> bool {
    form >> KIND_AT == 1
}

#[inline(always)]
pub(crate) const fn words(form: u8) -> u8 {
    form >> WORDS_AT & 7
}

/// The number, after the length's low byte.
#[inline(always)]
pub(crate) const fn split_seq(last: u32) -> u32 {
    last & ((1 << SEQ_BITS) - 1)
}

#[inline]
pub(crate) const fn split_flow(bits: u64) -> Flow {
    Flow::truncated(bits >> ORIGIN_BITS)
}

/// The flow of a source address in `split`, which has two bits of it that are not free in between.
#[inline(always)]
pub(crate) const fn source_flow(source: u64) -> Flow {
    const GAP_AT: u32 = 40;
    const LOWER: u32 = (1 << (GAP_AT - ORIGIN_BITS)) - 1;
    let (upper, lower) = ((source >> (ORIGIN_BITS + 2)) as u32, (source >> ORIGIN_BITS) as u32);
    Flow::truncated((upper & !LOWER & (Flow::COUNT as u32 - 1) | lower & LOWER) as u64)
}

/// What a short message adds to the part of its flow's header in the payload: all but the nonce. The code of its length is 0.
#[inline(always)]
pub(crate) const fn split_message(class: Class, words: u8, handler: u8, seq: u32) -> u64 {
    let form = (class as u64) << KIND_AT | (words as u64) << WORDS_AT;
    form << 56 | (handler as u64) << 48 | split_seq(seq) as u64
}

/// The nonce and the number in that part of the header.
pub(crate) const FORESEEN: u64 = 0xffff << 32 | ((1 << SEQ_BITS) - 1);

/// What that part of the header has not in a short message: the upper bit of the kind, and the code of the length.
pub(crate) const NOT_SHORT: u64 = 1 << 63 | 7 << 56 | 0xff << SEQ_BITS;

/// Class, words and handler of a short message; `None` if that part of the header is of anything else.
#[inline(always)]
pub(crate) const fn short_message(rest: u64) -> Option<(Class, u8, u8)> {
    if rest & NOT_SHORT != 0 {
        return None;
    }
    let class = if rest >> 62 == 0 { Class::Request } else { Class::Reply };
    Some((class, words((rest >> 56) as u8), (rest >> 48) as u8))
}

#[inline]
pub(crate) fn emit_split(rest: &mut [u8; 8], header: &Header, length_code: u16) {
    // Eight bytes, one store.
    let front = (form(header, length_code) as u64) << 56 | (header.kind.code(header.handler) as u64) << 48;
    let number = (length_code as u32) << SEQ_BITS | split_seq(header.seq);
    *rest = (front | (header.nonce as u64) << 32 | number as u64).to_be_bytes();
}

#[inline]
pub(crate) fn parse_split(bits: u64, rest: &[u8; 8]) -> Result<(Header, u16), Reason> {
    let nonce = u16::from_be_bytes([rest[2], rest[3]]);
    let seq = u32::from_be_bytes([0, rest[5], rest[6], rest[7]]);
    let kind = kind(rest[0], rest[1])?;
    Ok((read(kind, rest[0], rest[1], split_flow(bits), nonce, seq), length_code(rest[0], rest[4])))
}

#[inline]
pub(crate) fn emit_plain(rest: &mut [u8; 12], header: &Header, length_code: u16) {
    rest[0] = PLAIN_VERSION;
    rest[1] = form(header, length_code);
    rest[2..4].copy_from_slice(&header.flow.id().to_be_bytes());
    rest[4] = header.kind.code(header.handler);
    rest[5] = length_code as u8;
    rest[6..8].copy_from_slice(&header.nonce.to_be_bytes());
    rest[8..12].copy_from_slice(&header.seq.to_be_bytes());
}

#[inline]
pub(crate) fn plain_version(rest: &[u8; 12]) -> Result<(), Reason> {
    if rest[0] == PLAIN_VERSION { Ok(()) } else { Err(Reason::Version) }
}

#[inline]
pub(crate) fn plain_flow(rest: &[u8; 12]) -> Result<Flow, Reason> {
    Flow::new(u16::from_be_bytes([rest[2], rest[3]])).ok_or(Reason::NoFlow)
}

#[inline]
pub(crate) fn parse_plain(rest: &[u8; 12]) -> Result<(Header, u16), Reason> {
    plain_version(rest)?;
    let nonce = u16::from_be_bytes([rest[6], rest[7]]);
    let seq = u32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]);
    let header = read(plain_kind(rest[1], rest[4])?, rest[1], rest[4], Flow::NODE, nonce, seq);
    // Kind before flow, as in steering: both name the same reason for the same frame.
    Ok((Header { flow: plain_flow(rest)?, ..header }, length_code(rest[1], rest[5])))
}
