//! The send queue of one connection. The transport pushes frames, and [`Outbox::write`] pops them into the socket's buffer.
//! The queue has room for 256 frames. When it is full, the sender must wait; once it has waited for [`STALL_TIMEOUT`] without progress,
//! frames are dropped and counted.

use std::array;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_wire::Buffer;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::deframer::{PREFIX, prefix};

/// Bytes of a hello.
pub(super) const HELLO_BYTES: usize = 20;
/// The most frames that wait at one connection.
pub(super) const MAX_QUEUED: usize = 256;
/// If a peer's full queue does not drain for this long, frames for the peer are dropped until it drains. This is
/// shorter than the time after which a node with several transports gives up a transport that takes no frames.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_millis(20);
/// The most time between two frames for a full queue that counts as waiting.
const LONGEST_ABSENCE: Duration = Duration::from_millis(2);
/// The most frames of one system call, and the most for a cheaper one.
const FRAMES_PER_CALL: usize = 64;
const FRAMES_PER_CHEAP_CALL: usize = 4;
const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

#[derive(Debug)]
pub(super) struct Outbox {
    /// The hello, sent before all frames.
    hello: [u8; HELLO_BYTES],
    hello_left: usize,
    queue: VecDeque<([u8; PREFIX], Frame)>,
    /// Bytes of the first frame, its prefix included, that were sent.
    sent_bytes: usize,
    /// A frame has found the queue full since bytes were last sent.
    full: Option<Full>,
}

#[derive(Clone, Copy, Debug)]
struct Full {
    seen_at: Instant,
    waited: Duration,
}

impl Full {
    /// The queue is still full. A sender that was not there for a while has written nothing meanwhile: that says nothing of the peer.
    fn see(&mut self, now: Instant) {
        self.waited += now.saturating_duration_since(self.seen_at).min(LONGEST_ABSENCE);
        self.seen_at = now;
    }
}

/// Whether there is room for another frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Some,
    /// There is no room now: the caller should wait.
    Full,
    /// There is no room, and the peer takes nothing: waiting would block frames for other peers.
    Stalled,
}

impl Outbox {
    pub(super) fn new(hello: [u8; HELLO_BYTES]) -> Outbox {
        Outbox { hello, hello_left: 0, queue: VecDeque::with_capacity(MAX_QUEUED), sent_bytes: 0, full: None }
    }

    /// Queue the hello, before all frames.
    pub(super) fn queue_hello(&mut self) {
        debug_assert!(self.queue.is_empty(), "frames would follow half a hello");
        self.hello_left = HELLO_BYTES;
    }

    #[inline]
    pub(super) fn room(&mut self, longest: Duration) -> Room {
        if self.queue.len() < MAX_QUEUED { Room::Some } else { self.check_stalled(Instant::now(), longest) }
    }

    /// Start the stall time anew, with the next frame that finds the queue full.
    pub(super) fn forget_full(&mut self) {
        self.full = None;
    }

    #[cold]
    fn check_stalled(&mut self, now: Instant, longest: Duration) -> Room {
        let full = self.full.get_or_insert(Full { seen_at: now, waited: Duration::ZERO });
        full.see(now);
        if full.waited < longest { Room::Full } else { Room::Stalled }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.hello_left == 0
    }

    /// Discard all frames. Returns how many there were.
    pub(super) fn clear(&mut self) -> usize {
        let frames = self.queue.len();
        self.queue.clear();
        (self.hello_left, self.sent_bytes) = (0, 0);
        frames
    }

    /// Queue a frame. There must be room.
    #[inline]
    pub(super) fn push(&mut self, frame: Frame) {
        debug_assert!(self.queue.len() < MAX_QUEUED, "it would have to allocate");
        self.queue.push_back((prefix(frame.bytes().len()), frame));
    }

    /// Write as much as the socket has room for. Returns how many whole frames were sent; `None` if the peer receives nothing
    /// more.
    #[inline]
    pub(super) fn write(&mut self, stream: &TcpStream, calls: &mut u64) -> Option<usize> {
        let mut frames = 0;
        while !self.is_empty() {
            *calls += 1;
            let wanted = if self.queue.len() <= FRAMES_PER_CHEAP_CALL {
                send::<FRAMES_PER_CHEAP_CALL>(self, stream)
            } else {
                send::<FRAMES_PER_CALL>(self, stream)
            };
            match wanted {
                Ok((wanted, sent)) => {
                    frames += self.advance(sent);
                    if sent < wanted {
                        break;
                    }
                }
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => break,
                Err(_) => return None,
            }
        }
        Some(frames)
    }

    /// Record sent bytes. Returns the number of frames that they complete.
    fn advance(&mut self, bytes: usize) -> usize {
        self.full = None;
        let hello = self.hello_left.min(bytes);
        self.hello_left -= hello;
        self.sent_bytes += bytes - hello;
        let mut frames = 0;
        while let Some((_, frame)) = self.queue.front()
            && self.sent_bytes >= PREFIX + frame.bytes().len()
        {
            self.sent_bytes -= PREFIX + frame.bytes().len();
            self.queue.pop_front();
            frames += 1;
        }
        frames
    }

    /// The prefix and the bytes of a queued frame, without the bytes that were sent already.
    fn piece(&self, at: usize) -> [&[u8]; 2] {
        let Some((prefix, frame)) = self.queue.get(at) else { return [&[]; 2] };
        let gone = if at == 0 { self.sent_bytes } else { 0 };
        [&prefix[gone.min(PREFIX)..], &frame.bytes()[gone.saturating_sub(PREFIX)..]]
    }
}

/// Make one system call. Returns the bytes offered, and the bytes sent.
fn send<const N: usize>(outbox: &Outbox, stream: &TcpStream) -> Result<(usize, usize), Errno> {
    let pieces: [[IoSlice<'_>; 2]; N] = array::from_fn(|at| outbox.piece(at).map(IoSlice::new));
    let (frames, control) = (outbox.queue.len().min(N), &mut SendAncillaryBuffer::default());
    let hello = &outbox.hello[HELLO_BYTES - outbox.hello_left..];
    let (slices, wanted) = if hello.is_empty() {
        let wanted = pieces.as_flattened().iter().map(|piece| piece.len()).sum();
        (&pieces.as_flattened()[..2 * frames], wanted)
    } else {
        (&[IoSlice::new(hello)][..], hello.len())
    };
    Ok((wanted, sendmsg(stream, slices, control, FLAGS)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_was_away_has_not_waited() {
        let (mut outbox, start, ms) = (Outbox::new([0; HELLO_BYTES]), Instant::now(), Duration::from_millis(1));
        let mut looks = |at: u32| outbox.check_stalled(start + at * ms, STALL_TIMEOUT);
        assert_eq!([looks(0), looks(5000)], [Room::Full; 2], "it was away");
        assert_eq!((5001..5018).map(&mut looks).find(|room| *room != Room::Full), None);
        assert_eq!(looks(5018), Room::Stalled);
        outbox.advance(0);
        assert_eq!(outbox.check_stalled(start + 5019 * ms, STALL_TIMEOUT), Room::Full, "bytes have left");
    }
}
