//! A whole frame: written in place around its body, and read back.

use core::fmt;

use crate::header::{Header, Kind, MAX_WORDS, WORD};
use crate::trailer::{self, Piggyback, SHORT};
use crate::{Address, EtherType, Flow, Framing, Reason, bare, plain, split};

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

/// Bytes of the smallest Ethernet frame, without its check sequence.
pub const SMALLEST: usize = 60;

pub use crate::trailer::has_room;

/// Who sends to whom on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The receiver.
    pub to: Address,
    /// The sender's true address; in the frame itself only with [`Framing::Plain`].
    pub from: Address,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
}

/// A frame that does not fit the memory it was to be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes that the frame needs.
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
    if length < SMALLEST { SMALLEST } else { length }
}

/// Write a frame around the `body` bytes that stand at [`Framing::body_at`]:
/// Ethernet header, our header, and for a short frame padding and trailer.
/// `piggyback` is left out where there is no room for it ([`has_room`]).
/// Returns the frame's length.
///
/// # Errors
/// [`TooLong`], and nothing is written, where `space` cannot hold the frame.
#[inline]
pub fn emit(
    space: &mut [u8],
    framing: Framing,
    link: &Link,
    header: &Header,
    body: usize,
    piggyback: Option<&Piggyback>,
) -> Result<usize, TooLong> {
    let length = length(framing, body);
    if space.len() < length {
        return Err(TooLong { needs: length });
    }
    let short = trailer::is_short(framing, body);
    let source = write_header(space, framing, link, header, short);
    space[..6].copy_from_slice(&link.to.0);
    space[6..12].copy_from_slice(&source.0);
    if short && let Some(frame) = space.first_chunk_mut::<SMALLEST>() {
        trailer::emit(frame, framing, body, piggyback);
    }
    Ok(length)
}

/// Our header into EtherType and payload; returns the source address to write.
#[inline]
fn write_header(space: &mut [u8], framing: Framing, link: &Link, header: &Header, short: bool) -> Address {
    let ethertype = if framing == Framing::Plain { link.ethertype.plain() } else { link.ethertype.hidden() };
    space[12..ETHERNET].copy_from_slice(&ethertype.to_be_bytes());
    let payload = &mut space[ETHERNET..];
    match framing {
        Framing::Bare => bare::emit(header, short),
        Framing::Split => {
            if let Some(rest) = payload.first_chunk_mut() {
                split::emit(rest, header, short);
            }
            split::source(header.flow, link.from)
        }
        Framing::Plain => {
            if let Some(rest) = payload.first_chunk_mut() {
                plain::emit(rest, header, short);
            }
            link.from
        }
    }
}

/// Write the acknowledgements of a short frame anew, before it is sent again.
/// Frames without room for them stay as they are.
pub fn refresh(frame: &mut [u8], framing: Framing, body: usize, piggyback: &Piggyback) {
    if trailer::has_room(framing, body)
        && let Some(frame) = frame.first_chunk_mut::<SMALLEST>()
    {
        trailer::emit(frame, framing, body, Some(piggyback));
    }
}

/// The source address of frames that a node sends on a flow in `split`
/// framing: what a learning switch sees. On [`Flow::NODE`] it is the address
/// with which discovery probes what the network lets through.
pub const fn split_source(flow: Flow, from: Address) -> Address {
    split::source(flow, from)
}

/// A frame taken apart; borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// How it carried its header.
    pub framing: Framing,
    /// The header.
    pub header: Header,
    /// The word arguments, [`WORD`] bytes each, network byte order.
    pub words: &'a [u8],
    /// What follows the words: the user's bytes.
    pub payload: &'a [u8],
    /// Acknowledgements that rode in the padding.
    pub piggyback: Option<Piggyback>,
    /// The source address as it stands; the sender's own only in `plain`.
    pub source: Address,
}

/// Take a frame of ours apart. The caller has made sure that the EtherType is
/// one of ours, as [`steer`](crate::steer::steer) does.
///
/// # Errors
/// Why the frame makes no sense; nothing of it should be used then.
#[inline]
pub fn parse(frame: &[u8], ethertype: EtherType) -> Result<Parsed<'_>, Reason> {
    let smallest = frame.first_chunk::<SMALLEST>().ok_or(Reason::Short)?;
    let source = Address([frame[6], frame[7], frame[8], frame[9], frame[10], frame[11]]);
    let (framing, (header, form)) = read_header(smallest, source, ethertype)?;
    if (header.kind == Kind::Control) != (header.flow == Flow::NODE) {
        return Err(Reason::NodeFlow);
    }
    let (body, piggyback) = if form & SHORT == 0 {
        (frame.len() - framing.body_at(), None)
    } else if frame.len() == SMALLEST {
        trailer::parse(smallest, framing)?
    } else {
        return Err(Reason::Length);
    };
    let words = header.words as usize * WORD;
    if header.words as usize > MAX_WORDS || words > body {
        return Err(Reason::Words);
    }
    let (words, payload) = frame[framing.body_at()..][..body].split_at(words);
    Ok(Parsed { framing, header, words, payload, piggyback, source })
}

#[inline]
fn read_header(
    frame: &[u8; SMALLEST],
    source: Address,
    ethertype: EtherType,
) -> Result<(Framing, (Header, u8)), Reason> {
    let payload = &frame[ETHERNET..];
    let (rest, _) = payload.split_first_chunk::<12>().ok_or(Reason::Short)?;
    if u16::from_be_bytes([frame[12], frame[13]]) == ethertype.plain() {
        return Ok((Framing::Plain, plain::parse(rest)?));
    }
    let bits = bare::from_source(source)?;
    match bare::version(bits) {
        bare::VERSION => Ok((Framing::Bare, bare::parse(bits)?)),
        split::VERSION => {
            let (rest, _) = rest.split_first_chunk::<8>().ok_or(Reason::Short)?;
            Ok((Framing::Split, split::parse(bits, rest)?))
        }
        _ => Err(Reason::Version),
    }
}
