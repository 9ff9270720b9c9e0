//! A frame between two NICs: its bytes are nobody's memory.

use std::collections::VecDeque;
use std::sync::Arc;

/// A frame on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    bytes: Arc<Vec<u8>>,
    damaged: bool,
}

impl Signal {
    /// As a NIC reads it from memory.
    pub fn new(bytes: &[u8]) -> Signal {
        Signal { bytes: Arc::new(bytes.to_vec()), damaged: false }
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
        flip(&mut bytes, at, pattern);
        Signal { bytes: Arc::new(bytes), damaged: true }
    }
}

fn flip(bytes: &mut [u8], at: usize, pattern: u8) {
    let at = at % bytes.len().max(1);
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= pattern;
    }
}

/// Memory of signals, for the next once they are gone: a network allocates only while more is under way on it than
/// ever before.
#[derive(Debug, Default)]
pub(crate) struct Buffers(VecDeque<Arc<Vec<u8>>>);

/// So many are looked at for one that is free: what was sent first is there first, but for what is late.
const LOOKED_AT: usize = 4;

impl Buffers {
    /// Have as many, for frames of this length.
    pub(crate) fn reserve(&mut self, signals: usize, length: usize) {
        let missing = signals.saturating_sub(self.0.len());
        self.0.reserve(missing + LOOKED_AT);
        (0..missing).for_each(|_| self.0.push_back(Arc::new(Vec::with_capacity(length))));
    }

    /// As [`Signal::new`].
    pub(crate) fn signal(&mut self, bytes: &[u8]) -> Signal {
        Signal { bytes: self.copy(bytes, |_| ()), damaged: false }
    }

    /// As [`Signal::damage`].
    pub(crate) fn damage(&mut self, signal: &Signal, at: usize, pattern: u8) -> Signal {
        Signal { bytes: self.copy(signal.bytes(), |bytes| flip(bytes, at, pattern)), damaged: true }
    }

    fn copy(&mut self, bytes: &[u8], change: impl FnOnce(&mut [u8])) -> Arc<Vec<u8>> {
        let mut buffer = self.free().unwrap_or_default();
        // Nobody else has it, so nothing is copied but these.
        let space = Arc::make_mut(&mut buffer);
        space.clear();
        space.extend_from_slice(bytes);
        change(space);
        self.0.push_back(buffer.clone());
        buffer
    }

    fn free(&mut self) -> Option<Arc<Vec<u8>>> {
        for _ in 0..LOOKED_AT.min(self.0.len()) {
            match self.0.pop_front()? {
                free if Arc::strong_count(&free) == 1 => return Some(free),
                taken => self.0.push_back(taken),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_never_too_soon() {
        let mut buffers = Buffers::default();
        let kept = buffers.signal(b"kept");
        let copies: Vec<Signal> = (0..3).map(|_| buffers.signal(b"gone").clone()).collect();
        assert_eq!(buffers.0.len(), 4);
        drop(copies);
        (0..100u8).for_each(|n| assert_eq!(buffers.signal(&[n; 60]).bytes(), [n; 60]));
        let damaged = buffers.damage(&kept, 1, 0x20);
        assert_eq!((damaged.bytes(), damaged.is_damaged()), (&b"kEpt"[..], true));
        assert_eq!((buffers.0.len(), kept.bytes()), (4, &b"kept"[..]));
    }
}
