//! The memory of long messages: buffers that are used again, within a limit.

use am_ring::{Frame, Layout, Pool};
use am_wire::{Buffer, MAX_WORDS, WORD_BYTES};

/// Where the payload starts in a buffer. The words are in front of it, without a gap.
pub(crate) const PAYLOAD_AT: usize = MAX_WORDS * WORD_BYTES;

/// The shortest buffer, without its margin. A longer one has twice the length of a shorter one, so that messages of similar
/// lengths share buffers.
const MIN_BUFFER: usize = 4096;

/// What a buffer has besides, for the words of a message and what a layer puts in front of its data. So data whose length is a power
/// of two wastes nothing.
const MARGIN: usize = 1088;

/// The most bytes of buffers that are kept for later messages.
const MAX_FREE: usize = 4 << 20;

/// A limited number of bytes. Each buffer is a pool of one frame. So a long message is a frame like every other one: a handler
/// may keep it on any thread, and dropping it returns its memory.
#[derive(Debug)]
pub(crate) struct MessageMemory {
    buffers: Vec<Pool>,
    /// Bytes of all buffers.
    bytes: usize,
    limit: usize,
    /// The length of the buffer that was not to be had last.
    wanted: Option<usize>,
}

/// The length of the buffer for this many bytes.
pub(crate) fn buffer_length(bytes: usize) -> usize {
    bytes.saturating_sub(MARGIN).next_power_of_two().max(MIN_BUFFER) + MARGIN
}

impl MessageMemory {
    pub(crate) fn new(limit: usize) -> Self {
        MessageMemory { buffers: vec![], bytes: 0, limit, wanted: None }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A frame with room for this many bytes, `bytes` long. `None` if other messages have reached the limit, or the system has no
    /// memory.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Frame> {
        let stride = buffer_length(bytes);
        let mut frame =
            match self.buffers.iter().rev().filter(|pool| pool.layout().stride == stride).find_map(Pool::take) {
                Some(frame) => frame,
                None => self.make(stride)?,
            };
        frame.set_len(bytes);
        self.wanted = None;
        Some(frame)
    }

    /// As [`take`](Self::take), beyond the limit: for a reply, which must not fail.
    pub(crate) fn take_beyond(&mut self, bytes: usize) -> Option<Frame> {
        let limit = std::mem::replace(&mut self.limit, usize::MAX);
        let frame = self.take(bytes);
        self.limit = limit;
        frame
    }

    /// Whether the buffer that was not to be had last could be had now.
    pub(super) fn has_room(&self) -> bool {
        let Some(stride) = self.wanted else { return true };
        let (free, used): (Vec<&Pool>, Vec<&Pool>) = self.buffers.iter().partition(|pool| pool.available() > 0);
        let used: usize = used.iter().map(|pool| pool.layout().stride).sum();
        used == 0 || used + stride <= self.limit || free.iter().any(|pool| pool.layout().stride == stride)
    }

    fn make(&mut self, stride: usize) -> Option<Frame> {
        if self.bytes.saturating_add(stride) > self.limit {
            self.free_down_to(0);
        }
        // One that is alone may be longer than the limit: nothing else would ever make room for it.
        if self.bytes.saturating_add(stride) > self.limit && !self.buffers.is_empty() {
            self.wanted = Some(stride);
            return None;
        }
        let pool = Pool::heap(Layout { frames: 1, stride, headroom: 0 }).ok()?;
        let frame = pool.take();
        self.bytes += stride;
        self.buffers.push(pool);
        frame
    }

    /// A message has ended. Return what is more than a few buffers to the system.
    pub(super) fn trim(&mut self) {
        self.free_down_to(MAX_FREE);
    }

    /// Drop free buffers, the longest first, until at most this many bytes are free.
    fn free_down_to(&mut self, most: usize) {
        let is_free = |pool: &Pool| pool.available() > 0;
        let mut free: usize = self.buffers.iter().filter(|pool| is_free(pool)).map(|pool| pool.layout().stride).sum();
        while free > most {
            let free_ones = self.buffers.iter().enumerate().filter(|(_, pool)| is_free(pool));
            let Some((at, _)) = free_ones.max_by_key(|(_, pool)| pool.layout().stride) else { return };
            let stride = self.buffers.swap_remove(at).layout().stride;
            (free, self.bytes) = (free - stride, self.bytes - stride);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_within_the_limit() {
        let mut memory = MessageMemory::new(3 * (MIN_BUFFER + MARGIN));
        let (short, long) = (memory.take(100).unwrap(), memory.take(MIN_BUFFER + MARGIN + 1).unwrap());
        assert_eq!((short.bytes().len(), long.room()), (100, 2 * MIN_BUFFER + MARGIN));
        assert!(memory.has_room() && memory.take(1).is_none(), "the limit is reached");
        assert!(!memory.has_room());
        let beyond = memory.take_beyond(1);
        assert!(beyond.is_some() && memory.take(1).is_none());
        let base = short.bytes().as_ptr();
        drop(short);
        assert!(memory.has_room());
        assert_eq!(memory.take(50).unwrap().bytes().as_ptr(), base);
        drop((long, beyond));
        let held = memory.take(2).unwrap();
        assert!(memory.take(3 * MIN_BUFFER).is_none(), "a buffer of four is longer than what is left");
        drop(held);
        assert!(memory.take(3 * MIN_BUFFER).is_some(), "one that is alone may be longer than the limit");
        assert!(memory.take(2).is_some(), "free buffers make room for others");
        memory.trim();
        assert!(memory.bytes <= MAX_FREE);
    }
}
