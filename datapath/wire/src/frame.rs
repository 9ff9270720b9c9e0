//! A whole frame: written in place around its body, and read back.

use core::fmt;

use crate::header::{HEAD_WORDS, Header, Kind, WORD_BYTES};
use crate::length::{NARROW, SHORT_FRAME_CODE, WIDE};
use crate::payload::{SPLIT_VERSION, emit_plain, emit_split, parse_plain, parse_split};
use crate::trailer::{self, Piggyback};
use crate::{Address, EtherType, Flow, Framing, Reason, bare, group_header, payload};

pub use crate::length::{ETHERNET_HEADER, MIN_FRAME};
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

/// A parsed frame; borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedFrame<'a> {
    /// Its framing.
    pub framing: Framing,
    /// The header.
    pub header: Header,
    /// The word arguments, [`WORD_BYTES`] bytes each, network byte order.
    pub words: &'a [u8],
    /// What follows the words: the user's bytes.
    pub payload: &'a [u8],
    /// Acknowledgements in the padding.
    pub piggyback: Option<Piggyback>,
    /// The source address in the frame; the sender's own only in `plain`.
    pub source: Address,
}

impl ParsedFrame<'_> {
    /// Bytes of words and payload.
    #[inline(always)]
    pub fn body_len(&self) -> usize {
        self.words.len() + self.payload.len()
    }
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
    let code = match framing {
        _ if short => SHORT_FRAME_CODE,
        Framing::Bare => NARROW.code(length),
        Framing::Split | Framing::Plain => WIDE.code(length),
    };
    let payload = &mut frame[ETHERNET_HEADER..];
    let (source, ethertype) = match framing {
        Framing::Bare => (bare::emit(header, code), link.ethertype.hidden()),
        Framing::Split => {
            if let Some(rest) = payload.first_chunk_mut() {
                emit_split(rest, header, code);
            }
            (payload::split_source(header.flow, link.from), link.ethertype.hidden())
        }
        Framing::Plain => {
            if let Some(rest) = payload.first_chunk_mut() {
                emit_plain(rest, header, code);
            }
            (link.from.to_u64(), link.ethertype.plain())
        }
    };
    frame[..6].copy_from_slice(&link.to.0);
    // Source and EtherType: eight bytes, one store.
    frame[6..ETHERNET_HEADER].copy_from_slice(&(source << 16 | ethertype as u64).to_be_bytes());
    if short {
        trailer::emit(frame, framing, body, piggyback);
    }
    Ok(length)
}

/// The source address of frames that a node sends on a flow in `split` framing: what a learning switch sees. For
/// [`Flow::NODE`] it is the address with which discovery probes the network.
pub const fn split_source(flow: Flow, from: Address) -> Address {
    Address::from_u64(payload::split_source(flow, from))
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

/// Whether a frame has its true source address and is on [`Flow::NODE`], as group frames and all control frames but some probes. Says nothing
/// about whether it is well-formed.
#[inline]
pub fn is_plain_control(frame: &[u8], ethertype: EtherType) -> bool {
    frame.first_chunk::<18>().is_some_and(|head| {
        let (found, flow) = (u16::from_be_bytes([head[12], head[13]]), u16::from_be_bytes([head[16], head[17]]));
        found == ethertype.plain() && Flow::truncated(flow.into()) == Flow::NODE
    })
}

/// As [`parse`], for most frames: a request or a reply in `bare` or `split` framing. `None` says nothing about the frame;
/// [`parse`] does.
#[inline(always)]
pub fn parse_usual(frame: &[u8], ethertype: EtherType) -> Option<ParsedFrame<'_>> {
    let smallest = frame.first_chunk::<MIN_FRAME>()?;
    let usual = Usual::find(smallest, ethertype)?;
    let Usual { source, framing, is_reply, flow, nonce, handler, words, seq, length_code } = usual;
    if !usual.fits(frame.len()) {
        return None;
    }
    let (body, piggyback) = match length_code {
        SHORT_FRAME_CODE => trailer::parse(smallest, framing).ok()?,
        _ => (frame.len() - framing.body_at(), None),
    };
    let bytes = words as usize * WORD_BYTES;
    if flow == Flow::NODE || words as usize > HEAD_WORDS || bytes > body {
        return None;
    }
    let header = Header { kind: if is_reply { Kind::Reply } else { Kind::Request }, flow, nonce, handler, words, seq };
    let (words, payload) = frame.get(framing.body_at()..)?.get(..body)?.split_at(bytes);
    Some(ParsedFrame { framing, header, words, payload, piggyback, source: Address::from_u64(source) })
}

/// The header of a usual frame: a request or a reply with its header, or a part of it, in the source address. Nearly all
/// frames are usual, and a few comparisons tell, as in TCP's header prediction (Jacobson, 1990). Any other frame,
/// malformed or not, is left to the general code.
#[derive(Clone, Copy)]
pub(crate) struct Usual {
    source: u64,
    framing: Framing,
    pub(crate) is_reply: bool,
    pub(crate) flow: Flow,
    nonce: u16,
    handler: u8,
    words: u8,
    seq: u32,
    length_code: u16,
}

impl Usual {
    #[inline(always)]
    pub(crate) fn find(frame: &[u8; MIN_FRAME], ethertype: EtherType) -> Option<Usual> {
        let source = hidden_source(frame, ethertype)?;
        let (rest, _) = frame[ETHERNET_HEADER..].split_first_chunk()?;
        if payload::is_split(source) { Usual::split(source, u64::from_be_bytes(*rest)) } else { Usual::bare(source) }
    }

    #[inline(always)]
    fn bare(source: u64) -> Option<Usual> {
        let bits = bare::bits(source);
        (bare::is_bare(bits) && bare::is_message(bits)).then(|| Usual {
            source,
            framing: Framing::Bare,
            is_reply: bare::is_reply(bits),
            flow: bare::flow(bits),
            nonce: 0,
            handler: bare::code(bits),
            words: bare::words(bits),
            seq: bare::seq(bits),
            length_code: bare::length_code(bits),
        })
    }

    #[inline(always)]
    fn split(source: u64, rest: u64) -> Option<Usual> {
        let form = (rest >> 56) as u8;
        payload::is_message(form).then(|| Usual {
            source,
            framing: Framing::Split,
            is_reply: payload::is_reply(form),
            flow: payload::split_flow(bare::bits(source)),
            nonce: (rest >> 32) as u16,
            handler: (rest >> 48) as u8,
            words: payload::words(form),
            seq: payload::split_seq(rest as u32),
            length_code: payload::length_code(form, (rest >> 24) as u8),
        })
    }

    /// Whether the frame has the length that its header gives.
    #[inline(always)]
    pub(crate) fn fits(&self, length: usize) -> bool {
        let lengths = if self.framing == Framing::Bare { &NARROW } else { &WIDE };
        lengths.fits(self.length_code, length)
    }
}

/// The source address of a frame that has its header, or a part of it, there.
#[inline(always)]
pub(crate) fn hidden_source(frame: &[u8; MIN_FRAME], ethertype: EtherType) -> Option<u64> {
    source_like(bare::to_source(0), bare::FIXED, frame, ethertype)
}

/// The source address, if it has the bits of `mask` as `like`, and the frame has the EtherType of a header there.
#[inline(always)]
pub(crate) fn source_like(like: u64, mask: u64, frame: &[u8; MIN_FRAME], ethertype: EtherType) -> Option<u64> {
    // Source and EtherType: eight bytes, one load.
    let (number, _) = frame[6..].split_first_chunk()?;
    let number = u64::from_be_bytes(*number);
    let is_like = number & (mask << 16 | 0xffff) == like << 16 | ethertype.hidden() as u64;
    is_like.then_some(number >> 16)
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
    if header.kind.is_of_node() != (header.flow == Flow::NODE) {
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
    if header.words as usize > HEAD_WORDS || words > body {
        return Err(Reason::Words);
    }
    if header.kind == Kind::Group {
        group_header::check(header.words, frame)?;
    }
    let (words, payload) = frame[framing.body_at()..][..body].split_at(words);
    Ok(ParsedFrame { framing, header, words, payload, piggyback, source: Address::from_u64(source) })
}

#[inline(always)]
pub(crate) fn read_header(
    frame: &[u8; MIN_FRAME],
    source: u64,
    is_plain: bool,
) -> Result<(Framing, (Header, u16)), Reason> {
    let payload = &frame[ETHERNET_HEADER..];
    let (rest, _) = payload.split_first_chunk::<12>().ok_or(Reason::Short)?;
    if is_plain {
        return Ok((Framing::Plain, parse_plain(rest)?));
    }
    let bits = bare::from_source(source)?;
    if bare::is_bare(bits) {
        return Ok((Framing::Bare, (bare::parse(bits)?, bare::length_code(bits))));
    }
    if bare::version(bits) != SPLIT_VERSION {
        return Err(Reason::Version);
    }
    let (rest, _) = rest.split_first_chunk::<8>().ok_or(Reason::Short)?;
    Ok((Framing::Split, parse_split(bits, rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::{self, Decision, ShortMessages, SteeringTable, steer_any};
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use std::vec::Vec;

    extern crate std;

    const OWN: Address = Address([2, 0, 0, 0, 0, 1]);

    /// Random bytes rarely have these bits, so they are fixed.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let bytes = prop::collection::vec(any::<u8>(), MIN_FRAME..MIN_FRAME + 3);
        (bytes, any::<[bool; 4]>()).prop_map(|(mut bytes, [ours, hidden, split, has_trailer])| {
            if ours {
                bytes[..6].copy_from_slice(&OWN.0);
            }
            if hidden {
                let version = if split { 0b1100_0000 } else { 0 };
                bytes[6] = bytes[6] & if split { 0b0011_1100 } else { 0b0111_1100 } | 0b0000_0010 | version;
                bytes[12..14].copy_from_slice(&EtherType::DEFAULT.hidden().to_be_bytes());
            }
            if has_trailer {
                bytes.truncate(MIN_FRAME);
                bytes[MIN_FRAME - 1] &= 0b1111_1110;
            }
            if ours {
                set_length_code(&mut bytes, split, has_trailer);
            }
            bytes
        })
    }

    /// The correct code of the length: from bit 12 of the source address on, or in the payload.
    fn set_length_code(bytes: &mut [u8], split: bool, has_trailer: bool) {
        let lengths = if split { WIDE } else { NARROW };
        let code = if has_trailer { SHORT_FRAME_CODE } else { lengths.code(bytes.len()) };
        if split {
            bytes[14] = bytes[14] & 0b1111_1000 | (code >> 8) as u8;
            bytes[18] = code as u8;
        } else {
            bytes[9] = bytes[9] & 0b1111_1000 | (code >> 4) as u8;
            bytes[10] = bytes[10] & 0x0f | (code << 4) as u8;
        }
    }

    fn is_usual(parsed: &ParsedFrame<'_>) -> bool {
        parsed.framing != Framing::Plain && matches!(parsed.header.kind, Kind::Request | Kind::Reply)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_short_way_and_the_long_way_say_the_same(bytes in frames(), flow in 0..Flow::COUNT, full: bool, all: bool) {
            let smallest = bytes.first_chunk().unwrap();
            let usual = parse_usual(&bytes, EtherType::DEFAULT);
            // The general code trusts that the EtherType is ours.
            if bytes[12..14] == EtherType::DEFAULT.hidden().to_be_bytes() {
                prop_assert_eq!(usual, parse_any(&bytes, smallest, EtherType::DEFAULT).ok().filter(is_usual));
            }

            let mut table = SteeringTable::new(EtherType::DEFAULT, OWN);
            let known = usual.map_or(flow, |usual| usual.header.flow.index());
            // Where all flows are open, a malformed frame is on one as well.
            table.flows.fill(u8::from(all));
            let short = ShortMessages::new(EtherType::DEFAULT, OWN);
            (table.full, table.flows[known], table.ways_back[known / 64]) = (full, 1, flow as u64);
            let decision = steer_any(&bytes, &table);
            prop_assert_eq!(steer::steer(&bytes, &table), decision);
            let is_sent_on = matches!(decision, Decision::Socket(_) | Decision::Bounce(_));
            prop_assert!(!steer::is_usual(&bytes, &short, &table) || is_sent_on);
            let is_ours = bytes[..6] == OWN.0 && usual.is_some();
            prop_assert!(steer::is_usual(&bytes, &short, &table) == is_sent_on || !is_ours);
        }
    }

    #[test]
    fn such_frames_are_among_them() {
        let mut runner = TestRunner::deterministic();
        let all: Vec<_> = (0..2000).map(|_| frames().new_tree(&mut runner).unwrap().current()).collect();
        let usual = |framing| {
            let parsed = all.iter().filter_map(|bytes| parse_usual(bytes, EtherType::DEFAULT));
            parsed.filter(|parsed| parsed.framing == framing).count()
        };
        let counts = [Framing::Bare, Framing::Split].map(usual);
        assert!(counts.iter().all(|count| *count > 40), "{counts:?} of 2000");
    }
}
