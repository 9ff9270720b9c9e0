//! `plain`: true source address, the header in 12 bytes of payload.
//!
//! ```text
//!  payload, byte 0     1     2..4    4       5        6..8   8..12
//!             version  form  flow  handler  length    nonce  sequence
//!                2
//! ```

use crate::form::{form, length_code, read};
use crate::header::{Flow, Header};
use crate::{Framing, Reason};

pub(crate) const VERSION: u8 = 2;

// Version, form, flow, handler, length, nonce, sequence.
const _: () = assert!(1 + 1 + 2 + 1 + 1 + 2 + 4 == Framing::Plain.cost());

#[inline]
pub(crate) fn emit(rest: &mut [u8; 12], header: &Header, length_code: u16) {
    rest[0] = VERSION;
    rest[1] = form(header, length_code);
    rest[2..4].copy_from_slice(&header.flow.id().to_be_bytes());
    rest[4] = header.kind.code(header.handler);
    rest[5] = length_code as u8;
    rest[6..8].copy_from_slice(&header.nonce.to_be_bytes());
    rest[8..12].copy_from_slice(&header.seq.to_be_bytes());
}

#[inline]
pub(crate) fn version(rest: &[u8; 12]) -> Result<(), Reason> {
    if rest[0] == VERSION { Ok(()) } else { Err(Reason::Version) }
}

#[inline]
pub(crate) fn flow(rest: &[u8; 12]) -> Result<Flow, Reason> {
    Flow::new(u16::from_be_bytes([rest[2], rest[3]])).ok_or(Reason::NoFlow)
}

#[inline]
pub(crate) fn parse(rest: &[u8; 12]) -> Result<(Header, u16), Reason> {
    version(rest)?;
    let nonce = u16::from_be_bytes([rest[6], rest[7]]);
    let seq = u32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]);
    let header = read(rest[1], rest[4], Flow::NODE, nonce, seq)?;
    // Kind before flow, as in steering: both name the same reason for the same frame.
    Ok((Header { flow: flow(rest)?, ..header }, length_code(rest[1], rest[5])))
}
