//! The key of a segment. It authenticates control frames and rejects: an authentication code follows the content of
//! each. Messages and
//! acknowledgements carry none.
//!
//! The code covers both link addresses and the content. So a frame that was recorded is worth nothing at another node, and
//! nothing from another address. Sent again between the same nodes it is harmless: answers carry the number of the
//! question, closes carry both nonces of their flow, and a beacon of an earlier run is a claim that its sender must
//! prove (decision 119).

use core::fmt;

use am_wire::control::Control;
use am_wire::{Address, Flow, Framing, HashKey, Seq};

/// The key that all nodes of a segment share.
#[derive(Clone, PartialEq, Eq)]
pub struct SegmentKey([u8; 32]);

pub(crate) type AuthCode = [u8; Control::AUTH_CODE_BYTES];

/// Tells apart what a code was made for.
const CONTROL: u8 = 1;
const REJECT: u8 = 2;
const GROUP: u8 = 3;

impl SegmentKey {
    /// The key with these bytes. All of them must be secret and random.
    pub const fn new(bytes: [u8; 32]) -> SegmentKey {
        SegmentKey(bytes)
    }

    /// The code of a control frame. A probe with a forged source address has none of its sender.
    pub(crate) fn control_code(&self, framing: Framing, to: Address, from: Address, content: &[u8]) -> AuthCode {
        let from = if framing == Framing::Plain { from } else { Address::default() };
        self.code(CONTROL, [to, from], [content, &[]])
    }

    /// The code of a reject of the message with this number, on the flow that the reject's receiver knows by this id.
    pub(crate) fn reject_code(
        &self,
        addresses: [Address; 2],
        (flow, nonce): (Flow, u16),
        seq: Seq,
        content: &[u8],
    ) -> AuthCode {
        let [[a, b], [c, d]] = [flow.id(), nonce].map(u16::to_be_bytes);
        let [e, f, g, h] = seq.0.to_be_bytes();
        self.code(REJECT, addresses, [&[a, b, c, d, e, f, g, h], content])
    }

    /// The key of a group, for the tags of its frames. The XDP program gets it, and not the segment's.
    pub(crate) fn group_key(&self, group: u64) -> HashKey {
        let code = self.code(GROUP, [Address::default(); 2], [&group.to_be_bytes(), &[]]);
        [0, 8].map(|at| u64::from_be_bytes(*code[at..].first_chunk().expect("the code has 16 bytes")))
    }

    /// The first half of keyed BLAKE3.
    fn code(&self, kind: u8, [to, from]: [Address; 2], parts: [&[u8]; 2]) -> AuthCode {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[kind]).update(&to.0).update(&from.0).update(parts[0]).update(parts[1]);
        let mut code = AuthCode::default();
        code.copy_from_slice(&hasher.finalize().as_bytes()[..Control::AUTH_CODE_BYTES]);
        code
    }
}

/// Whether `found` starts with this code. Takes the same time wherever they differ.
pub(crate) fn is_auth_code(code: &AuthCode, found: &[u8]) -> bool {
    let Some(found) = found.first_chunk::<{ Control::AUTH_CODE_BYTES }>() else { return false };
    code.iter().zip(found).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

/// The content of a body, and the code behind it. A body that is too short has an empty code.
pub(crate) fn split_auth_code(body: &[u8]) -> (&[u8], &[u8]) {
    body.split_at(body.len().checked_sub(Control::AUTH_CODE_BYTES).unwrap_or(body.len()))
}

/// Nothing of the key.
impl fmt::Debug for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SegmentKey")
    }
}
