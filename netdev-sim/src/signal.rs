//! A frame between two NICs: its bytes are nobody's memory.

use std::rc::Rc;

/// A frame on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    bytes: Rc<[u8]>,
    damaged: bool,
}

impl Signal {
    /// As a NIC reads it from memory.
    pub fn new(bytes: &[u8]) -> Signal {
        Signal { bytes: bytes.into(), damaged: false }
    }

    /// From the destination address on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether its check sequence is wrong.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// With one byte changed by this pattern, which is not 0.
    pub fn damage(&self, at: usize, pattern: u8) -> Signal {
        let mut bytes = self.bytes.to_vec();
        let at = at % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= pattern;
        }
        Signal { bytes: bytes.into(), damaged: true }
    }
}
