//! The reject template: how the XDP program returns a request to its sender before the host sees it. FM 1.0 left that
//! to the host, because its NIC was too slow to look into packets (§4.4).
//!
//! User space writes the start of a flow's rejects once, all but the sequence number. The program copies it over the
//! request, adds the number, and sends the frame back. So it needs to know only where the number is.

use crate::frame::{self, ETHERNET_HEADER, LinkAddresses, MIN_FRAME};
use crate::header::{Flow, Header, Kind};
use crate::{Address, EtherType, Framing};

/// The most bytes of a frame's headers.
const START: usize = ETHERNET_HEADER + Framing::Plain.cost();

/// The reject template of one flow: the start of its rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectTemplate {
    framing: Framing,
    start: [u8; START],
}

impl RejectTemplate {
    /// Bytes of [`RejectTemplate::to_bytes`].
    pub const BYTES: usize = 32;

    /// The template for the flow that its sender knows by `flow` and `nonce`.
    pub fn new(framing: Framing, link: &LinkAddresses, flow: Flow, nonce: u16) -> RejectTemplate {
        let mut bytes = [0; MIN_FRAME];
        let header = Header { kind: Kind::Reject, flow, nonce, handler: 0, words: 0, seq: 0 };
        // The smallest frame fits the smallest buffer.
        let _ = frame::emit(&mut bytes, framing, link, &header, 0, None);
        let mut start = [0; START];
        start.copy_from_slice(&bytes[..START]);
        RejectTemplate { framing, start }
    }

    /// The peer's address.
    pub const fn to(&self) -> Address {
        let [a, b, c, d, e, f, ..] = self.start;
        Address([a, b, c, d, e, f])
    }

    /// The same towards another address of the sender, from this address: for a node with several.
    #[must_use]
    pub fn readdressed(&self, to: Address, from: Address) -> RejectTemplate {
        let mut back = *self;
        back.start[..6].copy_from_slice(&to.0);
        // In the other framings the source address is the header.
        if matches!(back.framing, Framing::Plain) {
            back.start[6..12].copy_from_slice(&from.0);
        }
        back
    }

    /// As the XDP program reads it (`struct reject_template` in `decide.h`): the start, then 1 for `bare`, 2 for `split`, 3 for
    /// `plain`; all zero without a template.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..START].copy_from_slice(&self.start);
        bytes[START] = self.framing.number();
        bytes
    }

    /// The reject of a request that steering decided to bounce; `None` if the request came in another framing than the
    /// reject, whose number may be elsewhere. The host rejects it then.
    pub fn reject(&self, request: &[u8; MIN_FRAME], ethertype: EtherType) -> Option<[u8; MIN_FRAME]> {
        let framing = match (u16::from_be_bytes([request[12], request[13]]), request[6] >> 6) {
            (number, _) if number == ethertype.plain() => Framing::Plain,
            (_, 0 | 1) => Framing::Bare,
            _ => Framing::Split,
        };
        if framing != self.framing {
            return None;
        }
        let number = match framing {
            Framing::Bare => 10..12,
            Framing::Split => 19..22,
            Framing::Plain => 22..26,
        };
        let mut reject = [0; MIN_FRAME];
        reject[..START].copy_from_slice(&self.start);
        reject[number.clone()].copy_from_slice(&request[number]);
        if framing == Framing::Bare {
            // The upper bits next to the sequence number have the request's length; the reject is a short frame.
            reject[10] &= 0x0f;
        }
        Some(reject)
    }
}
