//! `split`: the part for steering in the source address, the rest in 8 bytes. The address depends on flow and sender
//! only, so a switch learns one a flow.
//!
//! ```text
//!  source, bit 45 44   43 … 30   29 … 0         payload, byte 0   1        2..4   4       5..8
//!              version  flow     origin: low             form  handler  nonce  length  sequence
//!                 3              bits of the
//!                                true address
//! ```

use crate::bare::{FREE, to_source};
use crate::form::{form, length_code, read};
use crate::header::{Flow, Header};
use crate::{Address, Framing, Reason};

pub(crate) const VERSION: u64 = 3;
const ORIGIN_BITS: u32 = 30;
const ORIGIN: u64 = (1 << ORIGIN_BITS) - 1;

/// Bits of the sequence number.
const SEQ_BITS: u32 = Framing::Split.seq_bits();

// Version, flow, origin; and the payload's part: form, handler, nonce, length, sequence.
const _: () = assert!(2 + Flow::BITS + ORIGIN_BITS == FREE);
const _: () = assert!(1 + 1 + 2 + 1 + SEQ_BITS as usize / 8 == Framing::Split.cost());

/// The source address of a flow's frames from the node with this true address.
#[inline]
pub(crate) const fn source(flow: Flow, from: Address) -> u64 {
    to_source(VERSION << 44 | (flow.id() as u64) << 30 | from.to_u64() & ORIGIN)
}

#[inline]
pub(crate) const fn flow(bits: u64) -> Flow {
    Flow::truncated(bits >> 30)
}

#[inline]
pub(crate) fn emit(rest: &mut [u8; 8], header: &Header, length_code: u16) {
    rest[0] = form(header, length_code);
    rest[1] = header.kind.code(header.handler);
    rest[2..4].copy_from_slice(&header.nonce.to_be_bytes());
    // The length's low byte, then the number: four bytes, one store.
    let last = (length_code as u32) << SEQ_BITS | header.seq & ((1 << SEQ_BITS) - 1);
    rest[4..8].copy_from_slice(&last.to_be_bytes());
}

#[inline]
pub(crate) fn parse(bits: u64, rest: &[u8; 8]) -> Result<(Header, u16), Reason> {
    let nonce = u16::from_be_bytes([rest[2], rest[3]]);
    let seq = u32::from_be_bytes([0, rest[5], rest[6], rest[7]]);
    Ok((read(rest[0], rest[1], flow(bits), nonce, seq)?, length_code(rest[0], rest[4])))
}
