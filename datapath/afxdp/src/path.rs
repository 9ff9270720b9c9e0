//! The queue of a socket: its rings, and the frames in them.

use am_ring::Frame;

use crate::close::CloseOnDrop;
use crate::frames::{FrameTable, Frames};
use crate::rx::Rx;
use crate::sg::LongFrames;
use crate::stats::{RxCounters, TxCounters};
use crate::tx::Tx;

/// The rings of a node, if its socket is open.
#[expect(clippy::large_enum_variant, reason = "the usual path is not a pointer further away")]
pub(crate) enum Path {
    /// Each frame fits one chunk.
    Whole(Queue<Frames>),
    /// Frames may take several chunks.
    Pieces(Box<Queue<LongFrames>>),
    /// The socket is closed: what remains are its counters, and the reason.
    Closed { rx: RxCounters, tx: TxCounters, why: String },
}

/// The rings of an open socket, and its frames.
pub(crate) struct Queue<F> {
    // Fields are dropped in this order: the rings, then the socket, then the frames that the kernel held.
    pub(crate) rx: Rx,
    pub(crate) tx: Tx,
    _socket: CloseOnDrop,
    frames: F,
}

impl<F: FrameTable> Queue<F> {
    pub(crate) fn new(mut rx: Rx, tx: Tx, socket: CloseOnDrop, mut frames: F) -> Queue<F> {
        rx.refill(&mut frames);
        Queue { rx, tx, _socket: socket, frames }
    }

    #[inline]
    pub(crate) fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.rx.receive(&mut self.frames, budget, each)
    }

    #[inline]
    pub(crate) fn send(&mut self, frame: &Frame) -> bool {
        self.tx.send(&mut self.frames, frame)
    }

    #[inline]
    pub(crate) fn flush(&mut self) {
        self.tx.flush(&mut self.frames);
    }
}

impl Path {
    #[inline]
    pub(crate) fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        match self {
            Path::Whole(queue) => queue.receive(budget, each),
            Path::Pieces(queue) => queue.receive(budget, each),
            Path::Closed { .. } => 0,
        }
    }

    /// Close the socket. `why` is reported from then on.
    pub(crate) fn close(&mut self, why: String) {
        let (rx, tx) = self.counters();
        *self = Path::Closed { rx, tx, why };
    }

    pub(crate) fn rings(&self) -> Option<(&Rx, &Tx)> {
        match self {
            Path::Whole(queue) => Some((&queue.rx, &queue.tx)),
            Path::Pieces(queue) => Some((&queue.rx, &queue.tx)),
            Path::Closed { .. } => None,
        }
    }

    pub(crate) fn rings_mut(&mut self) -> Option<(&mut Rx, &mut Tx)> {
        match self {
            Path::Whole(queue) => Some((&mut queue.rx, &mut queue.tx)),
            Path::Pieces(queue) => Some((&mut queue.rx, &mut queue.tx)),
            Path::Closed { .. } => None,
        }
    }

    pub(crate) fn counters(&self) -> (RxCounters, TxCounters) {
        match self {
            Path::Closed { rx, tx, .. } => (*rx, *tx),
            _ => self.rings().map(|(rx, tx)| (rx.counters, tx.counters)).unwrap_or_default(),
        }
    }
}
