//! The transport.

use std::fmt;

use am_ring::{Frame, Pool};
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport};
use am_wire::{Address, Buffer};

use crate::busy_poll::SavedSettings;
use crate::bypass::Bypass;
use crate::carrier::Carrier;
use crate::close::CloseOnDrop;
use crate::frames::Frames;
use crate::mode::Mode;
use crate::program::Attached;
use crate::reopen_state::ReopenState;
use crate::rules::InstalledRules;
use crate::rx::Rx;
use crate::rx_watch::{Dropped, RxWatch};
use crate::sg::{self, LongFrames};
use crate::siblings::InterfaceNode;
use crate::stats::{RxCounters, TxCounters};
use crate::tx::Tx;

/// An open queue of a NIC. It stays on the thread that opened it, as its pool does.
///
/// Dropping it frees the interface and the queue at once. Frames that the program still holds stay valid.
pub struct Xdp {
    // Fields are dropped in this order. The program comes first: frames for a closed socket would be lost, while those
    // of a detached program go to the kernel's stack.
    pub(crate) program: Attached,
    pub(crate) _rules: InstalledRules,
    pub(crate) path: Path,
    pub(crate) _saved_settings: SavedSettings,
    pub(crate) caps: Caps,
    pub(crate) mode: Mode,
    pub(crate) carrier: Carrier,
    pub(crate) watch: RxWatch,
    pub(crate) bypass: Bypass,
    pub(crate) reopen_state: ReopenState,
}

/// The rings, and the frames in them.
#[expect(clippy::large_enum_variant, reason = "the usual path is not a pointer further away")]
pub(crate) enum Path {
    /// Each frame fits one chunk.
    Whole(Whole),
    /// Frames may take several chunks.
    Pieces(Box<Pieces>),
    /// The socket is closed.
    Closed(Box<Closed>),
}

/// What remains of a closed path: its counters, and the reason.
pub(crate) struct Closed {
    rx: RxCounters,
    tx: TxCounters,
    /// Why the socket is closed.
    why: String,
}

pub(crate) struct Whole {
    // Fields are dropped in this order: the rings, then the socket, then the frames that the kernel held.
    pub(crate) rx: Rx,
    pub(crate) tx: Tx,
    pub(crate) _socket: CloseOnDrop,
    pub(crate) frames: Frames,
}

pub(crate) struct Pieces {
    // As above.
    pub(crate) rx: sg::Rx,
    pub(crate) tx: sg::Tx,
    pub(crate) _socket: CloseOnDrop,
    pub(crate) frames: LongFrames,
}

impl Path {
    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        match self {
            Path::Whole(Whole { rx, frames, .. }) => rx.receive(frames, budget, each),
            Path::Pieces(pieces) => pieces.rx.receive(&pieces.frames, budget, each),
            Path::Closed(_) => 0,
        }
    }

    /// Close the socket. `why` is reported from then on.
    pub(crate) fn close(&mut self, why: String) {
        let (&rx, &tx) = self.counters();
        *self = Path::Closed(Box::new(Closed { rx, tx, why }));
    }

    /// Continue the counters of the path before.
    pub(crate) fn continue_counters(&mut self, before: &Path) {
        let counters = before.counters();
        match self {
            Path::Whole(Whole { rx, tx, .. }) => (rx.counters, tx.counters) = (*counters.0, *counters.1),
            Path::Pieces(pieces) => (pieces.rx.counters, pieces.tx.counters) = (*counters.0, *counters.1),
            Path::Closed(closed) => (closed.rx, closed.tx) = (*counters.0, *counters.1),
        }
    }

    fn counters(&self) -> (&RxCounters, &TxCounters) {
        match self {
            Path::Whole(Whole { rx, tx, .. }) => (&rx.counters, &tx.counters),
            Path::Pieces(pieces) => (&pieces.rx.counters, &pieces.tx.counters),
            Path::Closed(closed) => (&closed.rx, &closed.tx),
        }
    }

    fn fill_buffers(&self) -> usize {
        match self {
            Path::Whole(whole) => whole.rx.fill_buffers(),
            Path::Pieces(pieces) => pieces.rx.fill_buffers(),
            Path::Closed(_) => 0,
        }
    }

    fn kernel_statistics(&self, each: &mut dyn FnMut(&'static str, u64)) {
        match self {
            Path::Whole(whole) => whole.rx.kernel_statistics(each),
            Path::Pieces(pieces) => pieces.rx.kernel_statistics(each),
            Path::Closed(_) => (),
        }
    }
}

/// Receive on an interface with several nodes: take the frames that siblings have passed on, and pass on frames that
/// are for them as well.
#[inline(never)]
fn receive_with_siblings(
    place: &InterfaceNode,
    path: &mut Path,
    pool: &Pool,
    budget: usize,
    each: &mut dyn FnMut(Frame),
) -> usize {
    let taken = place.mailbox().take(budget, &mut |frame| pool.copy(frame).into_iter().for_each(&mut *each));
    let received = path.receive(budget - taken, &mut |frame| {
        place.forward_to_siblings(frame.bytes());
        each(frame);
    });
    taken + received
}

impl Xdp {
    /// The mode that the kernel granted, and why not a better one.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Why nothing leaves or arrives now.
    fn current_error(&mut self) -> Option<&str> {
        self.check_for_truncation();
        self.check_for_bypass();
        self.carrier.check();
        if self.carrier.is_gone() {
            self.check_for_replacement();
        }
        let Xdp { carrier, watch, path, program, bypass, .. } = self;
        if let Path::Closed(closed) = path {
            return Some(&closed.why);
        }
        if carrier.error().is_some() {
            return carrier.error();
        }
        if bypass.error.is_some() {
            return bypass.error.as_deref();
        }
        let taken = program.node().map_or(0, |place| place.mailbox().counts().0);
        watch.check(path.counters().0.frames + taken, || program.counters().as_ref().map(Dropped::of))
    }

    pub(crate) fn set_rx_credit(&mut self, frames: usize) {
        self.reopen_state.max_rx_credit = self.reopen_state.max_rx_credit.max(frames);
        match &mut self.path {
            Path::Whole(whole) => whole.rx.set_rx_credit(frames),
            Path::Pieces(pieces) => pieces.rx.set_rx_credit(frames),
            Path::Closed(_) => (),
        }
    }
}

impl Transport for Xdp {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        match self.program.node() {
            Some(place) if place.has_siblings() => {
                receive_with_siblings(place, &mut self.path, &self.caps.pool, budget, each)
            }
            _ => self.path.receive(budget, each),
        }
    }

    #[inline]
    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        match &mut self.path {
            Path::Whole(Whole { tx, frames, .. }) => tx.send(frames, frame),
            Path::Pieces(pieces) => pieces.tx.send(&mut pieces.frames, frame),
            Path::Closed(_) => false,
        }
    }

    #[inline]
    fn flush(&mut self) {
        match &mut self.path {
            Path::Whole(Whole { tx, frames, .. }) => tx.flush(frames),
            Path::Pieces(pieces) => pieces.tx.flush(&mut pieces.frames),
            Path::Closed(_) => (),
        }
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            Command::Steer { flow, open } => self.program.steer(flow, open),
            Command::RejectTemplate { flow, template } => self.program.set_reject_template(flow, template),
            Command::RxFull(is_full) => self.program.set_rx_full(is_full),
            Command::RxCredit(frames) => self.set_rx_credit(frames),
            _ => return command.without_peers(&self.caps),
        }
        Ok(())
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.program.unknown_flow().into_iter().for_each(|flow| each(Notice::UnknownFlow(flow)));
        self.current_error().into_iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let (rx, tx) = self.path.counters();
        rx.each(each);
        each("rx_blanks", self.path.fill_buffers() as u64);
        tx.each(each);
        self.path.kernel_statistics(each);
        if let Some(counters) = self.program.counters() {
            counters.each(each);
        }
        if let Some(place) = self.program.node().filter(|place| place.has_siblings()) {
            let (taken, lost) = place.mailbox().counts();
            each("broadcasts_handed_over", taken);
            each("broadcasts_handed_over_lost", lost);
        }
    }
}

impl fmt::Debug for Xdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xdp").field("caps", &self.caps).field("mode", &self.mode).finish_non_exhaustive()
    }
}
