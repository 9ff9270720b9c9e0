//! A frame between two NICs. Its bytes belong to no pool.

use std::collections::VecDeque;
use std::sync::Arc;

/// A frame on the wire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WireFrame {
    bytes: Arc<Vec<u8>>,
    damaged: bool,
}

impl WireFrame {
    /// The frame, from the destination address on.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether its check sequence is wrong.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged
    }
}

/// Memory of frames on the wire. It is used again when its frame is gone, so a network allocates only while more frames
/// are under way than ever before.
#[derive(Debug, Default)]
pub(crate) struct Buffers(VecDeque<Arc<Vec<u8>>>);

/// How many buffers are tried for a free one. Frames arrive about in the order in which they were sent, so an old buffer
/// is probably free.
const MAX_BUFFERS_TRIED: usize = 4;

impl Buffers {
    /// Allocate this many buffers, for frames of this length.
    pub(crate) fn reserve(&mut self, signals: usize, length: usize) {
        let missing = signals.saturating_sub(self.0.len());
        self.0.reserve(missing + MAX_BUFFERS_TRIED);
        (0..missing).for_each(|_| self.0.push_back(Arc::new(Vec::with_capacity(length))));
    }

    /// A frame with these bytes.
    pub(crate) fn wire_frame(&mut self, bytes: &[u8]) -> WireFrame {
        WireFrame { bytes: self.copy(bytes, |_| ()), damaged: false }
    }

    /// A copy with one byte XORed with `pattern`, which is not 0.
    pub(crate) fn damage(&mut self, signal: &WireFrame, at: usize, pattern: u8) -> WireFrame {
        let bytes = self.copy(signal.bytes(), |bytes| {
            let at = at % bytes.len().max(1);
            bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= pattern);
        });
        WireFrame { bytes, damaged: true }
    }

    fn copy(&mut self, bytes: &[u8], change: impl FnOnce(&mut [u8])) -> Arc<Vec<u8>> {
        let mut buffer = self.take_free().unwrap_or_default();
        // The buffer has no other owner, so `make_mut` copies nothing.
        let space = Arc::make_mut(&mut buffer);
        space.clear();
        space.extend_from_slice(bytes);
        change(space);
        self.0.push_back(buffer.clone());
        buffer
    }

    fn take_free(&mut self) -> Option<Arc<Vec<u8>>> {
        for _ in 0..MAX_BUFFERS_TRIED.min(self.0.len()) {
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
    fn memory_is_reused_only_when_free() {
        let mut buffers = Buffers::default();
        let kept = buffers.wire_frame(b"kept");
        let copies: Vec<WireFrame> = (0..3).map(|_| buffers.wire_frame(b"gone").clone()).collect();
        assert_eq!(buffers.0.len(), 4);
        drop(copies);
        (0..100u8).for_each(|n| assert_eq!(buffers.wire_frame(&[n; 60]).bytes(), [n; 60]));
        let damaged = buffers.damage(&kept, 1, 0x20);
        assert_eq!((damaged.bytes(), damaged.is_damaged()), (&b"kEpt"[..], true));
        assert_eq!((buffers.0.len(), kept.bytes()), (4, &b"kept"[..]));
    }
}
