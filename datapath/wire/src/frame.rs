//! A whole frame: written in place around its body, and read back.

use core::fmt;

use crate::header::{Header, Kind, MAX_WORDS, WORD_BYTES};
use crate::length::{NARROW, SHORT_FRAME_CODE, WIDE};
use crate::trailer::{self, Piggyback};
use crate::usual::Usual;
use crate::{Address, EtherType, Flow, Framing, Reason, bare, plain, split};

pub use crate::length::{ETHERNET_HEADER, MIN_FRAME};
pub use crate::parsed::ParsedFrame;
pub use crate::trailer::has_room_for_piggyback;

/// The addresses of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddresses {
    /// The receiver.
    pub to: Address,
    /// The sender's true address; in the frame itself only with [`Framing::Plain`].
    pub from: Address,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
}

/// A frame that does not fit its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The bytes that the frame needs.
    pub needs: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the frame needs {} bytes, more than its memory has", self.needs)
    }
}

impl core::error::Error for TooLong {}

/// Bytes of the frame with a body of this length.
#[inline]
pub const fn length(framing: Framing, body: usize) -> usize {
    let length = framing.body_at() + body;
    if length < MIN_FRAME { MIN_FRAME } else { length }
}

/// Where to write a body of this length, before [`emit`] writes the frame around it. Clears the padding of a short
/// frame.
///
/// # Errors
/// [`TooLong`] if `space` cannot hold the frame.
#[inline]
pub fn body(space: &mut [u8], framing: Framing, body: usize) -> Result<&mut [u8], TooLong> {
    let length = length(framing, body);
    if trailer::is_short(framing, body)
        && let Some(frame) = space.first_chunk_mut::<MIN_FRAME>()
    {
        // Clearing a constant number of bytes takes three instructions, the exact number a call.
        frame[ETHERNET_HEADER..].fill(0);
    }
    let at = framing.body_at();
    if space.len() < length { Err(TooLong { needs: length }) } else { Ok(&mut space[at..at + body]) }
}

/// Write a frame around the `body` bytes at the place that [`body`] gave: Ethernet header, our header, and for a short
/// frame the trailer. `piggyback` is left out if it has no room ([`has_room_for_piggyback`]). Returns the frame's length.
///
/// # Errors
/// [`TooLong`], with nothing written, if `space` cannot hold the frame.
#[inline(always)]
pub fn emit(
    space: &mut [u8],
    framing: Framing,
    link: &LinkAddresses,
    header: &Header,
    body: usize,
    piggyback: Option<&Piggyback>,
) -> Result<usize, TooLong> {
    let length = length(framing, body);
    let fits = space.len() >= length;
    let Some(frame) = space.first_chunk_mut::<MIN_FRAME>().filter(|_| fits) else {
        return Err(TooLong { needs: length });
    };
    let short = trailer::is_short(framing, body);
    let (source, ethertype) = write_header(frame, framing, link, header, length_code(framing, short, length));
    frame[..6].copy_from_slice(&link.to.0);
    // Source and EtherType: eight bytes, one store.
    frame[6..ETHERNET_HEADER].copy_from_slice(&(source << 16 | ethertype as u64).to_be_bytes());
    if short {
        trailer::emit(frame, framing, body, piggyback);
    }
    Ok(length)
}

/// The code of the frame's length in the header.
#[inline(always)]
fn length_code(framing: Framing, short: bool, length: usize) -> u16 {
    match framing {
        _ if short => SHORT_FRAME_CODE,
        Framing::Bare => NARROW.code(length),
        Framing::Split | Framing::Plain => WIDE.code(length),
    }
}

/// Write our header into the payload. Returns source address and EtherType to write.
#[inline(always)]
fn write_header(
    frame: &mut [u8; MIN_FRAME],
    framing: Framing,
    link: &LinkAddresses,
    header: &Header,
    code: u16,
) -> (u64, u16) {
    let payload = &mut frame[ETHERNET_HEADER..];
    match framing {
        Framing::Bare => (bare::emit(header, code), link.ethertype.hidden()),
        Framing::Split => {
            if let Some(rest) = payload.first_chunk_mut() {
                split::emit(rest, header, code);
            }
            (split::source(header.flow, link.from), link.ethertype.hidden())
        }
        Framing::Plain => {
            if let Some(rest) = payload.first_chunk_mut() {
                plain::emit(rest, header, code);
            }
            (link.from.to_u64(), link.ethertype.plain())
        }
    }
}

/// The source address of frames that a node sends on a flow in `split` framing: what a learning switch sees. For
/// [`Flow::NODE`] it is the address with which discovery probes the network.
pub const fn split_source(flow: Flow, from: Address) -> Address {
    Address::from_u64(split::source(flow, from))
}

/// Parse a frame of ours. The caller has checked the EtherType, as [`steer`](crate::steer::steer) does.
///
/// # Errors
/// Why the frame is malformed. No part of it may be used then.
#[inline]
pub fn parse(frame: &[u8], ethertype: EtherType) -> Result<ParsedFrame<'_>, Reason> {
    let smallest = frame.first_chunk::<MIN_FRAME>().ok_or(Reason::Short)?;
    parse_usual(frame, ethertype).map_or_else(|| parse_any(frame, smallest, ethertype), Ok)
}

/// As [`parse`], for most frames: a request or a reply with its header in the source address. `None` says nothing about
/// the frame; [`parse`] does.
#[inline(always)]
pub fn parse_usual(frame: &[u8], ethertype: EtherType) -> Option<ParsedFrame<'_>> {
    let smallest = frame.first_chunk::<MIN_FRAME>()?;
    Usual::read(smallest, ethertype)?.parse(frame, smallest)
}

/// The general case.
pub(crate) fn parse_any<'a>(
    frame: &'a [u8],
    smallest: &'a [u8; MIN_FRAME],
    ethertype: EtherType,
) -> Result<ParsedFrame<'a>, Reason> {
    // Source and EtherType: eight bytes, one load.
    let (number, _) = smallest[6..].split_first_chunk().ok_or(Reason::Short)?;
    let number = u64::from_be_bytes(*number);
    let source = number >> 16;
    let (framing, (header, code)) = read_header(smallest, source, number as u16 == ethertype.plain())?;
    if (header.kind == Kind::Control) != (header.flow == Flow::NODE) {
        return Err(Reason::NodeFlow);
    }
    let lengths = if framing == Framing::Bare { NARROW } else { WIDE };
    if !lengths.fits(code, frame.len()) {
        return Err(Reason::Length);
    }
    let (body, piggyback) = match code {
        SHORT_FRAME_CODE => trailer::parse(smallest, framing)?,
        _ => (frame.len() - framing.body_at(), None),
    };
    let words = header.words as usize * WORD_BYTES;
    if header.words as usize > MAX_WORDS || words > body {
        return Err(Reason::Words);
    }
    let (words, payload) = frame[framing.body_at()..][..body].split_at(words);
    Ok(ParsedFrame { framing, header, words, payload, piggyback, source: Address::from_u64(source) })
}

#[inline]
fn read_header(frame: &[u8; MIN_FRAME], source: u64, is_plain: bool) -> Result<(Framing, (Header, u16)), Reason> {
    let payload = &frame[ETHERNET_HEADER..];
    let (rest, _) = payload.split_first_chunk::<12>().ok_or(Reason::Short)?;
    if is_plain {
        return Ok((Framing::Plain, plain::parse(rest)?));
    }
    let bits = bare::from_source(source)?;
    if bare::is_bare(bits) {
        return Ok((Framing::Bare, (bare::parse(bits)?, bare::length_code(bits))));
    }
    if bare::version(bits) != split::VERSION {
        return Err(Reason::Version);
    }
    let (rest, _) = rest.split_first_chunk::<8>().ok_or(Reason::Short)?;
    Ok((Framing::Split, split::parse(bits, rest)?))
}
