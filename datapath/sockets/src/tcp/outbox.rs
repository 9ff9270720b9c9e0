//! Frames that wait for the socket's buffer, and what of them has gone.

use std::array;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_wire::Buffer;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::cutter::{PREFIX, prefix};
use super::hello::HELLO;

/// Frames that wait at a connection, at most.
pub(super) const QUEUE: usize = 256;
/// A peer that takes nothing from a full queue for so long is not waited for, until it takes something: shorter than
/// a node with several transports waits for one that takes no frames.
pub(super) const STALLED: Duration = Duration::from_millis(20);
/// Frames of one system call, at most, and for which less is set up.
const MANY: usize = 64;
const FEW: usize = 4;
const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

#[derive(Debug)]
pub(super) struct Outbox {
    /// Goes before all frames.
    hello: [u8; HELLO],
    hello_left: usize,
    queue: VecDeque<([u8; PREFIX], Frame)>,
    /// Bytes of the first one that have gone, its prefix among them.
    gone: usize,
    /// Since when frames have been refused, and nothing has gone.
    refused: Option<Instant>,
}

/// Whether there is room for another frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Some,
    /// Not now: who sends should wait.
    Full,
    /// Not now, and waiting would hold up others for a peer that takes nothing.
    Stalled,
}

/// What came of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// So many frames have gone whole.
    Frames(usize),
    /// The other side hears nothing more.
    Dead,
}

impl Outbox {
    pub(super) fn new(hello: [u8; HELLO]) -> Outbox {
        Outbox { hello, hello_left: 0, queue: VecDeque::with_capacity(QUEUE), gone: 0, refused: None }
    }

    /// Say who we are, before anything else.
    pub(super) fn greet(&mut self) {
        debug_assert!(self.queue.is_empty(), "frames would follow half a hello");
        self.hello_left = HELLO;
    }

    #[inline]
    pub(super) fn room(&mut self) -> Room {
        if self.queue.len() < QUEUE { Room::Some } else { self.refuse(Instant::now()) }
    }

    #[cold]
    fn refuse(&mut self, now: Instant) -> Room {
        let since = *self.refused.get_or_insert(now);
        if now.saturating_duration_since(since) < STALLED { Room::Full } else { Room::Stalled }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.hello_left == 0
    }

    /// Nobody will take them; how many there were.
    pub(super) fn clear(&mut self) -> usize {
        let frames = self.queue.len();
        self.queue.clear();
        (self.hello_left, self.gone) = (0, 0);
        frames
    }

    /// One more; there must be room.
    #[inline]
    pub(super) fn push(&mut self, frame: Frame) {
        debug_assert!(self.queue.len() < QUEUE, "it would have to allocate");
        self.queue.push_back((prefix(frame.bytes().len()), frame));
    }

    /// Into the socket, as much as it has room for.
    #[inline]
    pub(super) fn write(&mut self, stream: &TcpStream, calls: &mut u64) -> Written {
        let mut frames = 0;
        while !self.is_empty() {
            *calls += 1;
            let wanted = if self.queue.len() <= FEW { send::<FEW>(self, stream) } else { send::<MANY>(self, stream) };
            match wanted {
                Ok((wanted, sent)) => {
                    frames += self.advance(sent);
                    if sent < wanted {
                        break;
                    }
                }
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => break,
                Err(_) => return Written::Dead,
            }
        }
        Written::Frames(frames)
    }

    /// So many bytes have gone; how many frames went with them.
    fn advance(&mut self, bytes: usize) -> usize {
        self.refused = None;
        let hello = self.hello_left.min(bytes);
        self.hello_left -= hello;
        self.gone += bytes - hello;
        let mut frames = 0;
        while let Some((_, frame)) = self.queue.front()
            && self.gone >= PREFIX + frame.bytes().len()
        {
            self.gone -= PREFIX + frame.bytes().len();
            self.queue.pop_front();
            frames += 1;
        }
        frames
    }

    /// Two pieces for each of the first frames, less what has gone.
    fn piece(&self, at: usize) -> [&[u8]; 2] {
        let Some((prefix, frame)) = self.queue.get(at) else { return [&[]; 2] };
        let gone = if at == 0 { self.gone } else { 0 };
        [&prefix[gone.min(PREFIX)..], &frame.bytes()[gone.saturating_sub(PREFIX)..]]
    }
}

/// One system call; how many bytes there were, and how many went.
fn send<const N: usize>(outbox: &Outbox, stream: &TcpStream) -> Result<(usize, usize), Errno> {
    let pieces: [[IoSlice<'_>; 2]; N] = array::from_fn(|at| outbox.piece(at).map(IoSlice::new));
    let (frames, control) = (outbox.queue.len().min(N), &mut SendAncillaryBuffer::default());
    let hello = &outbox.hello[HELLO - outbox.hello_left..];
    let (slices, wanted) = if hello.is_empty() {
        let wanted = pieces.as_flattened().iter().map(|piece| piece.len()).sum();
        (&pieces.as_flattened()[..2 * frames], wanted)
    } else {
        (&[IoSlice::new(hello)][..], hello.len())
    };
    Ok((wanted, sendmsg(stream, slices, control, FLAGS)?))
}
