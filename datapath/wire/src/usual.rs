//! The usual frame: a request or a reply in `bare` framing. Nearly all frames are, and one comparison tells, as in
//! TCP's header prediction (Jacobson, 1990). Any other frame, malformed or not, is left to the general code.

use crate::header::{Flow, Header, Kind, WORD_BYTES};
use crate::length::{MIN_FRAME, SHORT_FRAME_CODE};
use crate::parsed::ParsedFrame;
use crate::trailer;
use crate::{Address, EtherType, Framing, bare};

/// Source address and EtherType of a usual frame, as a number.
pub(crate) struct Usual(u64);

/// The bits that all of them share: group and local bit, version, EtherType.
const SAME: u64 = bare::to_source(1 << (bare::FREE - 1)) << 16 | bare::GROUP << 16 | 0xffff;

impl Usual {
    /// `None` for any other frame.
    #[inline(always)]
    pub(crate) fn read(frame: &[u8; MIN_FRAME], ethertype: EtherType) -> Option<Usual> {
        let (number, _) = frame[6..].split_first_chunk()?;
        let number = u64::from_be_bytes(*number);
        let same = bare::to_source(0) << 16 | ethertype.hidden() as u64;
        (number & SAME == same && bare::is_message(bare::bits(number >> 16))).then_some(Usual(number))
    }

    /// As in all `bare` frames.
    #[inline(always)]
    fn bits(&self) -> u64 {
        bare::bits(self.0 >> 16)
    }

    #[inline(always)]
    pub(crate) fn kind(&self) -> Kind {
        if bare::is_reply(self.bits()) { Kind::Reply } else { Kind::Request }
    }

    #[inline(always)]
    pub(crate) fn flow(&self) -> Flow {
        bare::flow(self.bits())
    }

    /// Whether it has the length that its header gives.
    #[inline(always)]
    pub(crate) fn fits(&self, length: usize) -> bool {
        bare::fits(self.bits(), length)
    }

    /// The parsed frame, if it is well-formed.
    #[inline(always)]
    pub(crate) fn parse<'a>(&self, frame: &'a [u8], smallest: &'a [u8; MIN_FRAME]) -> Option<ParsedFrame<'a>> {
        let (bits, framing) = (self.bits(), Framing::Bare);
        let flow = self.flow();
        let words = bare::words(bits);
        if !self.fits(frame.len()) {
            return None;
        }
        let (body, piggyback) = match bare::length_code(bits) {
            SHORT_FRAME_CODE => trailer::parse(smallest, framing).ok()?,
            _ => (frame.len() - framing.body_at(), None),
        };
        let bytes = words as usize * WORD_BYTES;
        if flow == Flow::NODE || bytes > body {
            return None;
        }
        let (handler, seq) = (bare::code(bits), bare::seq(bits));
        let header = Header { kind: self.kind(), flow, nonce: 0, handler, words, seq };
        let (words, payload) = frame.get(framing.body_at()..)?.get(..body)?.split_at(bytes);
        Some(ParsedFrame { framing, header, words, payload, piggyback, source: Address::from_u64(self.0 >> 16) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{parse_any, parse_usual};
    use crate::length::NARROW;
    use crate::steer::{SteeringTable, steer, steer_any};
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use std::vec::Vec;

    extern crate std;

    const OWN: Address = Address([2, 0, 0, 0, 0, 1]);

    /// Random bytes rarely have these bits, so they are fixed.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let bytes = prop::collection::vec(any::<u8>(), MIN_FRAME..MIN_FRAME + 3);
        (bytes, any::<[bool; 3]>()).prop_map(|(mut bytes, [ours, hidden, has_trailer])| {
            if ours {
                bytes[..6].copy_from_slice(&OWN.0);
            }
            if hidden {
                bytes[6] = bytes[6] & 0b0111_1100 | 0b0000_0010;
                bytes[12..14].copy_from_slice(&EtherType::DEFAULT.hidden().to_be_bytes());
            }
            if has_trailer {
                bytes.truncate(MIN_FRAME);
                bytes[MIN_FRAME - 1] &= 0b1111_1110;
            }
            if ours {
                // The correct code of the length, from bit 12 of the source address on.
                let code = if has_trailer { SHORT_FRAME_CODE } else { NARROW.code(bytes.len()) };
                bytes[9] = bytes[9] & 0b1111_1000 | (code >> 4) as u8;
                bytes[10] = bytes[10] & 0x0f | (code << 4) as u8;
            }
            bytes
        })
    }

    fn is_usual(parsed: &ParsedFrame<'_>) -> bool {
        parsed.framing == Framing::Bare && matches!(parsed.header.kind, Kind::Request | Kind::Reply)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_short_way_and_the_long_way_say_the_same(bytes in frames(), flow in 0..Flow::COUNT, full: bool) {
            let smallest = bytes.first_chunk().unwrap();
            let usual = Usual::read(smallest, EtherType::DEFAULT).and_then(|usual| usual.parse(&bytes, smallest));
            // The general code trusts that the EtherType is ours.
            if bytes[12..14] == EtherType::DEFAULT.hidden().to_be_bytes() {
                prop_assert_eq!(usual, parse_any(&bytes, smallest, EtherType::DEFAULT).ok().filter(is_usual));
            }

            let mut table = SteeringTable::new(EtherType::DEFAULT, OWN);
            let known = usual.map_or(flow, |usual| usual.header.flow.index());
            (table.full, table.flows[known], table.ways_back[known / 64]) = (full, 1, flow as u64);
            prop_assert_eq!(steer(&bytes, &table), steer_any(&bytes, &table));
        }
    }

    #[test]
    fn such_frames_are_among_them() {
        let mut runner = TestRunner::deterministic();
        let all: Vec<_> = (0..2000).map(|_| frames().new_tree(&mut runner).unwrap().current()).collect();
        let usual = all.iter().filter(|bytes| parse_usual(bytes, EtherType::DEFAULT).is_some()).count();
        assert!(usual > 100, "{usual} of 2000");
    }
}
