//! Splits a stream of bytes into frames, and copies them to frames of a pool. No I/O: bytes in, frames out.
//!
//! ```text
//!   ┌────────┬─────────┬────────┬───────────────┬────────┬──── ╌╌
//!   │ length │  frame  │ length │     frame     │ length │ fra       four bytes of length, big endian
//!   └────────┴─────────┴────────┴───────────────┴────────┴──── ╌╌
//!            start ▲                                  end ▲
//! ```
//!
//! ```
//! use am_sockets::tcp::deframer::{Deframer, prefix};
//!
//! let mut deframer = Deframer::new(1500);
//! let stream = [&prefix(60)[..], &[7; 60], &prefix(80), &[8; 30]].concat();
//! deframer.space()[..stream.len()].copy_from_slice(&stream);
//! deframer.advance(stream.len());
//! assert_eq!(deframer.peek(), Ok(Some(&[7; 60][..])));
//! deframer.consume();
//! assert_eq!(deframer.peek(), Ok(None)); // until the rest has come
//! ```

use am_ring::{Frame, Pool};
use am_transport::Steering;
use am_wire::frame::ETHERNET_HEADER;
use am_wire::{Address, Buffer};

/// Bytes of the length in front of each frame.
pub const PREFIX: usize = 4;

/// Room for the bytes of one system call.
const READ: usize = 256 << 10;

/// The prefix of a frame of this length.
#[inline]
pub fn prefix(len: usize) -> [u8; PREFIX] {
    (len as u32).to_be_bytes()
}

/// An invalid length. The rest of the stream cannot be read either.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream announces a frame of {0} bytes, which is no valid length: close the connection")]
pub struct InvalidLength(pub u32);

am_transport::debug_as_display!(InvalidLength);

/// Received bytes that are not yet frames. Its memory is allocated once.
#[derive(Debug)]
pub struct Deframer {
    memory: Box<[u8]>,
    start: usize,
    end: usize,
    max_frame: usize,
}

impl Deframer {
    /// For frames up to this length.
    pub fn new(longest: usize) -> Deframer {
        // A partial frame is moved to the front when the end is near. With more memory this happens less often.
        let memory = vec![0; READ.max(4 * (PREFIX + longest))].into_boxed_slice();
        Deframer { memory, start: 0, end: 0, max_frame: longest }
    }

    /// Room for the next bytes of the stream. It is never empty once all whole frames are taken.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.memory.len() - self.end < self.memory.len() / 2 {
            self.memory.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.memory[self.end..]
    }

    /// Record that this many bytes were written to [`space`](Self::space).
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.memory.len());
    }

    /// The next frame, if all of it is here.
    ///
    /// # Errors
    /// [`InvalidLength`]: the length is invalid, so the stream cannot be read any further.
    #[inline]
    pub fn peek(&self) -> Result<Option<&[u8]>, InvalidLength> {
        let here = &self.memory[self.start..self.end];
        let Some((prefix, rest)) = here.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_be_bytes(*prefix);
        if !(ETHERNET_HEADER..=self.max_frame).contains(&(len as usize)) {
            return Err(InvalidLength(len));
        }
        Ok(rest.get(..len as usize))
    }

    /// Remove the frame that [`peek`](Self::peek) returned.
    #[inline]
    pub fn consume(&mut self) {
        if let Ok(Some(frame)) = self.peek() {
            self.start += PREFIX + frame.len();
        }
    }
}

/// Steers received frames and copies them to frames of the pool.
pub(super) struct Inbox {
    pub(super) steering: Steering,
    pub(super) pool: Pool,
    /// A frame of the pool for the next received frame.
    pub(super) spare_frame: Option<Frame>,
    /// How often the pool had no frame for a received one.
    pub(super) no_frame: u64,
    /// The addresses from which control frames have arrived, until the routes to them are learned.
    pub(super) claimed: Vec<Address>,
}

/// The most addresses of [`Inbox::claimed`].
pub(super) const MAX_CLAIMED: usize = 64;

impl Inbox {
    /// Pass at most `budget` whole frames to `each`. Returns how many, and whether no whole frame is left.
    #[inline]
    pub(super) fn deliver_frames(
        &mut self,
        deframer: &mut Deframer,
        budget: usize,
        each: &mut dyn FnMut(Frame),
    ) -> Result<(usize, bool), InvalidLength> {
        let mut taken = 0;
        while let Some(bytes) = deframer.peek()? {
            if taken == budget {
                return Ok((taken, false));
            }
            let Some(mut frame) = self.spare_frame.take().or_else(|| self.pool.take()) else {
                // The frame stays in the deframer. Later ones stay in the socket, and TCP makes the peer wait.
                self.no_frame += 1;
                return Ok((taken, false));
            };
            let space = frame.space().and_then(|space| space.get_mut(..bytes.len()));
            let claimed = &mut self.claimed;
            let mut note = |source| {
                if claimed.len() < MAX_CLAIMED {
                    claimed.push(source);
                }
            };
            match space.filter(|_| self.steering.admits_from(bytes, &mut note)) {
                Some(space) => {
                    space.copy_from_slice(bytes);
                    frame.set_len(bytes.len());
                    taken += 1;
                    each(frame);
                }
                None => self.spare_frame = Some(frame),
            }
            deframer.consume();
        }
        Ok((taken, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_lengths_are_nonsense_before_anything_else_has_come() {
        for len in [0, 13, 1501, 1 << 31, u32::MAX] {
            let mut deframer = Deframer::new(1500);
            deframer.space()[..PREFIX].copy_from_slice(&len.to_be_bytes());
            deframer.advance(PREFIX - 1);
            assert_eq!(deframer.peek(), Ok(None));
            deframer.advance(1);
            assert_eq!(deframer.peek(), Err(InvalidLength(len)));
        }
    }

    #[test]
    fn the_longest_frames_have_room_wherever_they_start() {
        let (len, mut number) = (1 << 20, 0u8);
        let mut deframer = Deframer::new(len);
        let stream: Vec<u8> = (0..5).flat_map(|n: u8| [&prefix(len)[..], &vec![n; len]].concat()).collect();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let space = deframer.space();
            let piece = space.len().min(rest.len()).min(700_001);
            space[..piece].copy_from_slice(&rest[..piece]);
            deframer.advance(piece);
            rest = &rest[piece..];
            while let Ok(Some(frame)) = deframer.peek() {
                assert!(frame.len() == len && frame.iter().all(|byte| *byte == number));
                number += 1;
                deframer.consume();
            }
        }
        assert_eq!(number, 5);
    }
}
