//! The transport.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use am_bpf::Counters;
use am_ring::{Frame, Own, Pool};
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport};
use am_wire::{Address, Buffer, Reason};

use crate::attach::SOCKET;
use crate::bypass::Bypass;
use crate::carrier::Carrier;
use crate::close::CloseOnDrop;
use crate::frames::{FrameTable, Frames};
use crate::interface::Interface;
use crate::lend::{LentQueues, NoQueue};
use crate::mode::Mode;
use crate::options::XdpOptions;
use crate::rules::InstalledRules;
use crate::rx::Rx;
use crate::rx_watch::{RxWatch, TruncationDetector};
use crate::sg::LongFrames;
use crate::siblings::InterfaceNode;
use crate::stats::{self, RxCounters, TxCounters};
use crate::tx::Tx;

/// An open queue of a NIC. It stays on the thread that opened it, as its pool does.
///
/// Dropping it frees the interface and the queue at once. Frames that the program still holds stay valid.
pub struct Xdp {
    // Fields are dropped in this order. The program comes first: frames for a closed socket would be lost, while those
    // of a detached program go to the kernel's stack.
    pub(crate) node: InterfaceNode,
    pub(crate) _rules: InstalledRules,
    pub(crate) lent: LentQueues,
    pub(crate) path: Path,
    pub(crate) caps: Caps,
    pub(crate) mode: Mode,
    pub(crate) carrier: Carrier,
    pub(crate) watch: RxWatch,
    pub(crate) bypass: Bypass,
    // What the transport needs to reopen itself.
    pub(crate) options: XdpOptions,
    pub(crate) interface: Interface,
    pub(crate) wake: Arc<Own>,
    /// The largest credit that was announced.
    pub(crate) max_rx_credit: usize,
    pub(crate) truncation: TruncationDetector,
    /// When to look again for an interface that is gone.
    pub(crate) next_search: Instant,
}

/// The rings, and the frames in them.
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
    pub(crate) _socket: CloseOnDrop,
    pub(crate) frames: F,
}

impl<F: FrameTable> Queue<F> {
    pub(crate) fn new(mut rx: Rx, tx: Tx, socket: CloseOnDrop, mut frames: F) -> Queue<F> {
        rx.refill(&mut frames);
        Queue { rx, tx, _socket: socket, frames }
    }
}

impl Path {
    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        match self {
            Path::Whole(Queue { rx, frames, .. }) => rx.receive(frames, budget, each),
            Path::Pieces(queue) => queue.rx.receive(&mut queue.frames, budget, each),
            Path::Closed { .. } => 0,
        }
    }

    /// Close the socket. `why` is reported from then on.
    pub(crate) fn close(&mut self, why: String) {
        let (rx, tx) = self.counters();
        *self = Path::Closed { rx, tx, why };
    }

    fn rings(&self) -> Option<(&Rx, &Tx)> {
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

/// Receive on an interface with several nodes: take the frames that siblings have passed on, and pass on frames that
/// are for them as well.
#[inline(never)]
fn receive_with_siblings(
    node: &InterfaceNode,
    path: &mut Path,
    pool: &Pool,
    budget: usize,
    each: &mut dyn FnMut(Frame),
) -> usize {
    let taken = node.mailbox.take(budget, &mut |frame| pool.copy(frame).into_iter().for_each(&mut *each));
    let received = path.receive(budget - taken, &mut |frame| {
        node.forward_to_siblings(frame.bytes());
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
        self.carrier.check(&self.wake);
        if self.carrier.is_gone() {
            self.check_for_replacement();
        }
        self.check_for_new_address();
        let Xdp { carrier, watch, path, node, bypass, .. } = self;
        if let Path::Closed { why, .. } = path {
            return Some(why);
        }
        if let Some(error) = carrier.error.as_deref().or(bypass.error.as_deref()) {
            return Some(error);
        }
        let received = path.counters().0.frames + node.mailbox.counts().0;
        let lost = |counters: Counters| [counters.wrong_queue(), counters.dropped(Reason::Length)];
        watch.check(received, || node.steer.counters().ok().map(lost))
    }

    pub(crate) fn set_rx_credit(&mut self, frames: usize) {
        self.max_rx_credit = self.max_rx_credit.max(frames);
        if let Some((rx, _)) = self.path.rings_mut() {
            rx.set_rx_credit(frames);
        }
    }
}

impl Transport for Xdp {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        if self.node.has_siblings() {
            return receive_with_siblings(&self.node, &mut self.path, &self.caps.pool, budget, each);
        }
        self.path.receive(budget, each)
    }

    #[inline]
    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        match &mut self.path {
            Path::Whole(Queue { tx, frames, .. }) => tx.send(frames, frame),
            Path::Pieces(queue) => queue.tx.send(&mut queue.frames, frame),
            Path::Closed { .. } => false,
        }
    }

    #[inline]
    fn flush(&mut self) {
        match &mut self.path {
            Path::Whole(Queue { tx, frames, .. }) => tx.flush(frames),
            Path::Pieces(queue) => queue.tx.flush(&mut queue.frames),
            Path::Closed { .. } => (),
        }
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        let steer = &self.node.steer;
        match command {
            Command::Steer { flow, open } => {
                steer.set_reject_template(flow, None);
                steer.set_flow(flow, open.then_some(SOCKET));
            }
            Command::RejectTemplate { flow, template } => steer.set_reject_template(flow, Some(template)),
            Command::RxFull(is_full) => steer.set_rx_full(is_full),
            Command::RxCredit(frames) => self.set_rx_credit(frames),
            Command::AddAddress(address) => {
                PeerAddressError::check_added(&self.caps, address, &self.node.addresses.added)?;
                let refused =
                    |error| PeerAddressError::not_served(&self.caps, address, format!("the kernel says {error}"));
                self.node.add_address(address).map_err(refused)?;
            }
            Command::RemoveAddress(address) => {
                self.lent.take_back(address, &self.node);
                self.node.remove_address(address);
            }
            Command::LendQueue { to, lent } => {
                let queue = self.lent.lend(to, &self.node, &self.interface, &self.options);
                let transport = || self.caps.name.clone();
                let refused =
                    |NoQueue { why, may_come }| PeerAddressError::NoQueue { transport: transport(), why, may_come };
                // A cell that was set before keeps its queue, and the new one is closed.
                _ = lent.set(queue.map_err(refused)?);
            }
            _ => return command.without_peers(&self.caps),
        }
        Ok(())
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.node.steer.unknown_flow().into_iter().for_each(|flow| each(Notice::UnknownFlow(flow)));
        self.current_error().into_iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let (rx, tx) = self.path.counters();
        let rings = self.path.rings();
        rx.each(each);
        each("rx_blanks", rings.map_or(0, |(rx, _)| rx.fill_buffers() as u64));
        tx.each(each);
        rings.into_iter().for_each(|(rx, _)| stats::kernel(&rx.arrived, each));
        self.node.steer.counters().into_iter().for_each(|counters| counters.each(each));
        if self.node.has_siblings() {
            let (taken, lost) = self.node.mailbox.counts();
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
