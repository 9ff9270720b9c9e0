//! `split`: what steers the frame in the source address, the rest in 8 bytes.
//! The address depends on flow and sender only, so a switch learns one per flow.
//!
//! ```text
//!  source, bit 45 44   43 … 30   29 … 0         payload, byte 0   1        2..4   4..8
//!              version  flow     origin: low             form  handler  nonce  sequence
//!                 2              bits of the
//!                                true address
//! ```

use crate::bare::{FREE, form, read, to_source};
use crate::header::{Flow, Header};
use crate::{Address, Framing, Reason};

pub(crate) const VERSION: u64 = 2;
const ORIGIN_BITS: u32 = 30;
const ORIGIN: u64 = (1 << ORIGIN_BITS) - 1;

// Version, flow, origin; and the payload's part: form, handler, nonce, sequence.
const _: () = assert!(2 + Flow::BITS + ORIGIN_BITS == FREE);
const _: () = assert!(1 + 1 + 2 + 4 == Framing::Split.cost());

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
pub(crate) fn emit(rest: &mut [u8; 8], header: &Header, short: bool) {
    rest[0] = form(header, short);
    rest[1] = header.kind.code(header.handler);
    rest[2..4].copy_from_slice(&header.nonce.to_be_bytes());
    rest[4..8].copy_from_slice(&header.seq.to_be_bytes());
}

#[inline]
pub(crate) fn parse(bits: u64, rest: &[u8; 8]) -> Result<(Header, u8), Reason> {
    let nonce = u16::from_be_bytes([rest[2], rest[3]]);
    let seq = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]);
    Ok((read(rest[0], rest[1], flow(bits), nonce, seq)?, rest[0]))
}
