//! The transport: each call goes to the rings or to the steering program.

use std::io;
use std::sync::Arc;

use am_bpf::Kernel;
use am_ring::{Frame, Pool};
use am_transport::{Caps, Command, JoinedGroup, Notice, PeerAddressError, SharedStamps, Transport};
use am_wire::{Address, Buffer, Reason};

use crate::attach::SOCKET;
use crate::lend::NoQueue;
use crate::path::Path;
use crate::siblings::InterfaceNode;
use crate::stats;
use crate::xdp::Xdp;

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

/// Why the XDP program does not stamp.
fn no_sequencer() -> String {
    let kernel = Kernel::running().release;
    format!("kernel {kernel} is too old: an XDP program that stamps needs 5.18")
}

impl Xdp {
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
        let steer = &node.steer;
        watch.check(received, || Some([steer.wrong_queue().ok()?, steer.dropped(Reason::Length).ok()?]))
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
            Path::Whole(queue) => queue.send(frame),
            Path::Pieces(queue) => queue.send(frame),
            Path::Closed { .. } => false,
        }
    }

    #[inline]
    fn flush(&mut self) {
        match &mut self.path {
            Path::Whole(queue) => queue.flush(),
            Path::Pieces(queue) => queue.flush(),
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
            Command::JoinGroup { group, joined } => {
                let kernel = |why: io::Error| PeerAddressError::NoGroup {
                    transport: self.caps.name.clone(),
                    why: why.to_string(),
                };
                if !self.node.join_group(group).map_err(kernel)? {
                    return Err(PeerAddressError::too_many_groups(&self.caps));
                }
                let stamps = self.node.steer.stamps(group).map(|stamps| Arc::new(stamps) as SharedStamps);
                // A cell that was set before keeps its answer, which is the same.
                _ = joined.set(JoinedGroup { stamps: stamps.ok_or_else(no_sequencer) });
            }
            Command::CopyStamped { group, copies } => {
                let refused = |why: String| PeerAddressError::NoCopies { transport: self.caps.name.clone(), why };
                self.node.set_copies(group, copies, &self.interface).map_err(refused)?;
            }
            Command::LeaveGroup(group) => self.node.leave_group(group),
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
        rings.into_iter().for_each(|(rx, _)| stats::kernel(rx.rings.socket, each));
        self.node.steer.counters().into_iter().for_each(|counters| counters.each(each));
        if self.node.has_siblings() {
            let (taken, lost) = self.node.mailbox.counts();
            each("broadcasts_handed_over", taken);
            each("broadcasts_handed_over_lost", lost);
        }
    }
}
