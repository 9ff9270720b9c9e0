//! The key of a segment. It authenticates control frames and rejects: a tag follows the content of each. Messages and
//! acknowledgements carry none.
//!
//! A tag covers both link addresses and the content. So a frame that was recorded is worth nothing at another node, and
//! nothing from another address. Sent again between the same nodes it is harmless: answers carry the number of the
//! question, closes carry both nonces of their flow, and a beacon of an earlier run is a claim that its sender must
//! prove (decision 119).

use core::fmt;

use am_wire::control::Control;
use am_wire::{Address, Flow, Framing, Seq};

/// The key that all nodes of a segment share.
#[derive(Clone, PartialEq, Eq)]
pub struct SegmentKey([u8; 32]);

pub(crate) type Tag = [u8; Control::TAG_BYTES];

/// Tells apart what a tag was made for.
const CONTROL: u8 = 1;
const REJECT: u8 = 2;

impl SegmentKey {
    /// The key with these bytes. All of them must be secret and random.
    pub const fn new(bytes: [u8; 32]) -> SegmentKey {
        SegmentKey(bytes)
    }

    /// The tag of a control frame. A probe with a forged source address has none of its sender.
    pub(crate) fn control_tag(&self, framing: Framing, to: Address, from: Address, content: &[u8]) -> Tag {
        let from = if framing == Framing::Plain { from } else { Address::default() };
        self.tag(CONTROL, [to, from], content)
    }

    /// The tag of a reject of the request with this number, on the flow that the request's sender knows by this id.
    pub(crate) fn reject_tag(&self, to: Address, from: Address, (flow, nonce): (Flow, u16), seq: Seq) -> Tag {
        let [[a, b], [c, d]] = [flow.id(), nonce].map(u16::to_be_bytes);
        let [e, f, g, h] = seq.0.to_be_bytes();
        self.tag(REJECT, [to, from], &[a, b, c, d, e, f, g, h])
    }

    /// The first half of keyed BLAKE3.
    fn tag(&self, kind: u8, [to, from]: [Address; 2], content: &[u8]) -> Tag {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[kind]).update(&to.0).update(&from.0).update(content);
        let mut tag = Tag::default();
        tag.copy_from_slice(&hasher.finalize().as_bytes()[..Control::TAG_BYTES]);
        tag
    }
}

/// Whether `found` starts with this tag. Takes the same time wherever they differ.
pub(crate) fn is_tag(tag: &Tag, found: &[u8]) -> bool {
    let Some(found) = found.first_chunk::<{ Control::TAG_BYTES }>() else { return false };
    tag.iter().zip(found).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

/// Nothing of the key.
impl fmt::Debug for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SegmentKey")
    }
}
