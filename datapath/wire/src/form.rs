//! The form byte of `split` and `plain`: kind (2 bits), words (3), and the
//! upper three bits of the length's code, whose low eight have a byte of their own.

use crate::Reason;
use crate::header::{Flow, Header, Kind};

const KIND_AT: u32 = 6;
const WORDS_AT: u32 = 3;

#[inline]
pub(crate) fn form(header: &Header, length_code: u16) -> u8 {
    header.kind.field() << KIND_AT | (header.words & 7) << WORDS_AT | (length_code >> 8) as u8
}

#[inline]
pub(crate) fn length_code(form: u8, low: u8) -> u16 {
    (form as u16 & 7) << 8 | low as u16
}

#[inline]
pub(crate) fn words(form: u8) -> u8 {
    form >> WORDS_AT & 7
}

/// The kind of a form byte and a handler field, or why they have none.
#[inline]
pub(crate) fn kind(form: u8, code: u8) -> Result<Kind, Reason> {
    Kind::from_fields(form >> KIND_AT, code).ok_or(Reason::Kind)
}

/// The header, from its fields.
#[inline]
pub(crate) fn read(form: u8, code: u8, flow: Flow, nonce: u16, seq: u32) -> Result<Header, Reason> {
    let kind = kind(form, code)?;
    let handler = if matches!(kind, Kind::Request | Kind::Reply) { code } else { 0 };
    Ok(Header { kind, flow, nonce, handler, words: words(form), seq })
}
