//! As much of a frame as a switch reads: who it says it is from, and on which flow.

use crate::frame::MIN_FRAME;
use crate::payload::{self, SPLIT_VERSION, split_flow};
use crate::{Address, EtherType, Flow, Framing, Reason, bare};

/// Where a frame says it comes from, and its flow. Kind, length, words and trailer concern only the receiver, which
/// [checks](crate::frame::parse) them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its framing.
    pub framing: Framing,
    /// The flow that it names.
    pub flow: Flow,
    /// The source address in the frame; the sender's own only in `plain`.
    pub source: Address,
}

/// The bytes in which destination, route and EtherType are, in every framing.
const HEAD: usize = 24;

impl Route {
    /// Read it. The caller has checked the EtherType.
    ///
    /// # Errors
    /// Why the frame has none.
    #[inline]
    pub fn of(frame: &[u8], ethertype: EtherType) -> Result<Route, Reason> {
        let smallest = frame.first_chunk::<MIN_FRAME>().ok_or(Reason::Short)?;
        let [_, _, _, _, _, _, s0, s1, s2, s3, s4, s5, t0, t1, ..] = *smallest;
        let source = Address([s0, s1, s2, s3, s4, s5]);
        if u16::from_be_bytes([t0, t1]) == ethertype.plain() {
            let (rest, _) = smallest[14..].split_first_chunk::<12>().ok_or(Reason::Short)?;
            payload::plain_version(rest)?;
            return Ok(Route { framing: Framing::Plain, flow: payload::plain_flow(rest)?, source });
        }
        let bits = bare::from_source(source.to_u64())?;
        match () {
            () if bare::is_bare(bits) => Ok(Route { framing: Framing::Bare, flow: bare::flow(bits), source }),
            () if bare::version(bits) != SPLIT_VERSION => Err(Reason::Version),
            () => Ok(Route { framing: Framing::Split, flow: split_flow(bits), source }),
        }
    }

    /// The bytes on which a route of this framing depends.
    fn mask(&self) -> [u8; HEAD] {
        let mut mask = [0; HEAD];
        mask[..14].fill(0xff);
        match self.framing {
            Framing::Split => (),
            Framing::Bare => mask[6..12].copy_from_slice(&Address::from_u64(bare::ROUTE).0),
            // Version and flow.
            Framing::Plain => [14, 16, 17].into_iter().for_each(|at| mask[at] = 0xff),
        }
        mask
    }
}

/// The destination, the EtherType and the route of a frame, to recognise frames with the same ones by three comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTemplate {
    mask: [u64; HEAD / 8],
    bits: [u64; HEAD / 8],
}

impl RouteTemplate {
    /// That of a frame with this route. `None` if the frame is shorter than any.
    pub fn of(frame: &[u8], route: &Route) -> Option<RouteTemplate> {
        let (mask, frame) = (words(&route.mask()), words(frame.first_chunk::<MIN_FRAME>()?.first_chunk()?));
        Some(RouteTemplate { mask, bits: [0, 1, 2].map(|nth| frame[nth] & mask[nth]) })
    }

    /// Whether a frame has all of it.
    #[inline(always)]
    pub fn matches(&self, frame: &[u8]) -> bool {
        let head = frame.first_chunk::<MIN_FRAME>().and_then(|smallest| smallest.first_chunk::<HEAD>());
        head.is_some_and(|head| {
            let (found, RouteTemplate { mask, bits }) = (words(head), self);
            (found[0] & mask[0] ^ bits[0]) | (found[1] & mask[1] ^ bits[1]) | (found[2] & mask[2] ^ bits[2]) == 0
        })
    }
}

#[inline(always)]
fn words(head: &[u8; HEAD]) -> [u64; HEAD / 8] {
    let word = |at: usize| {
        let [a, b, c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5, 6, 7].map(|nth| head[at + nth]);
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    };
    [word(0), word(8), word(16)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use proptest::prelude::*;
    use std::vec::Vec;

    extern crate std;

    const OURS: EtherType = EtherType::DEFAULT;

    /// Random bytes with what they rarely have: one of our EtherTypes, a local source, a version.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        (prop::collection::vec(any::<u8>(), 56..64), any::<bool>(), 0..4_u8).prop_map(|(mut bytes, plain, version)| {
            let ethertype = if plain { OURS.plain() } else { OURS.hidden() };
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            bytes[6] = bytes[6] & 0b0011_1100 | 0b10 | version << 6;
            (bytes[14], bytes[16]) = (2, bytes[16] & 0x3f);
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_well_formed_frame_has_the_route_that_it_says(bytes in frames()) {
            if let Ok(parsed) = frame::parse(&bytes, OURS) {
                let Route { framing, flow, source } = Route::of(&bytes, OURS).unwrap();
                prop_assert_eq!((framing, flow, source), (parsed.framing, parsed.header.flow, parsed.source));
            }
        }

        #[test]
        fn one_template_is_one_destination_and_one_route(bytes in frames(), at in 0..24_usize, bit in 0..8, other in frames()) {
            let Ok(route) = Route::of(&bytes, OURS) else { return Ok(()) };
            let template = RouteTemplate::of(&bytes, &route).unwrap();
            prop_assert!(template.matches(&bytes));
            let key = |frame: &[u8]| {
                let route = Route::of(frame, OURS).ok()?;
                // The source of a bare frame is its header, which differs from message to message.
                let source = if route.framing == Framing::Bare { Address([0; 6]) } else { route.source };
                let kind: [u8; 2] = frame[12..14].try_into().unwrap();
                Some((frame[..6].to_vec(), kind, route.framing, route.flow, source))
            };
            let mut flipped = bytes.clone();
            flipped[at] ^= 1_u8 << bit;
            let mixed = [&bytes[..14], &other[14..]].concat();
            for changed in [flipped, mixed, other, bytes[..59.min(bytes.len())].to_vec()] {
                prop_assert_eq!(template.matches(&changed), key(&changed) == key(&bytes), "{:x?} {:x?}", bytes, changed);
            }
        }
    }
}
