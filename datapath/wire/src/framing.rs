//! The three places a header can be in.

use core::fmt;
use core::str::FromStr;

use crate::length::ETHERNET_HEADER;

/// Where a frame carries its header. Its number is the cost, which is needed for every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Framing {
    /// All of it in the source address. For cables and for ports that do not learn.
    Bare = 0,
    /// The part for steering in the source address, the rest in 8 bytes of payload. For switches that learn: there are
    /// no more source addresses than flows.
    Split = 8,
    /// The true source address, and the header in 12 bytes of payload. For networks that drop forged sources, and for
    /// transports other than Ethernet.
    Plain = 12,
}

impl Framing {
    /// All three, cheapest first.
    pub const ALL: [Framing; 3] = [Framing::Bare, Framing::Split, Framing::Plain];

    /// Bytes of payload that the header takes.
    #[inline]
    pub const fn cost(self) -> usize {
        self as usize
    }

    /// Where the body starts in the frame.
    #[inline]
    pub const fn body_at(self) -> usize {
        ETHERNET_HEADER + self.cost()
    }

    /// How many bits of the sequence number it carries.
    #[inline]
    pub const fn seq_bits(self) -> u32 {
        match self {
            Framing::Bare => 12,
            Framing::Split => 24,
            Framing::Plain => u32::BITS,
        }
    }

    /// 1, 2 or 3, as in the XDP program.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Framing::Bare => 1,
            Framing::Split => 2,
            Framing::Plain => 3,
        }
    }

    /// Its name: `bare`, `split` or `plain`.
    pub const fn name(self) -> &'static str {
        match self {
            Framing::Bare => "bare",
            Framing::Split => "split",
            Framing::Plain => "plain",
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAFraming;

impl fmt::Display for NotAFraming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a framing: bare, split or plain")
    }
}

impl core::error::Error for NotAFraming {}

impl FromStr for Framing {
    type Err = NotAFraming;

    fn from_str(text: &str) -> Result<Self, NotAFraming> {
        Framing::ALL.into_iter().find(|f| f.name() == text).ok_or(NotAFraming)
    }
}

/// A set of framings, as a node says which it understands: one bit a framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Framings(u8);

impl Framings {
    /// All three.
    pub const ALL: Framings = Framings(0b111);

    /// As on the wire.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From the wire; bits of framings that this version does not know are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Framings(bits & Self::ALL.0)
    }
}
