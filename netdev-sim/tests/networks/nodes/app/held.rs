//! Objects that an application holds beyond a call: tokens, messages that outlive their handler, prepared requests.

use am_engine::Engine;
use am_netdev_sim::Nanos;
use am_netdev_sim::check::content::{MessageId, fill};
use am_netdev_sim::check::{Checked, Violation};
use am_proto::{Delivery, FlowId, FlowState, SendError};
use am_ring::Frame;
use am_wire::{Buffer, Class, MAX_WORDS};
use rand::Rng;

use super::{App, Flow};
use crate::nodes::checks::Checks;

/// A token for a later reply.
pub struct PendingReply {
    pub flow: FlowId,
    pub serial: u64,
    pub to: u16,
    pub at: Nanos,
}

/// A message that outlives its handler. It keeps its frame, and the sender's credit.
pub struct HeldMessage {
    message: Delivery<Frame>,
    at: Nanos,
}

impl HeldMessage {
    pub fn frame(&self) -> &Frame {
        &self.message.frame
    }
}

/// A prepared request, written in its frame.
pub struct Prepared {
    pub frame: Frame,
    flow: Flow,
    id: MessageId,
    words: u8,
    size: usize,
    at: Nanos,
}

/// The most messages that are held at once.
const MAX_HELD: usize = 32;

impl App {
    /// The time when one of them is due.
    pub fn held_until(&self) -> Nanos {
        let held = self.held.iter().map(|held| held.at);
        held.chain(self.prepared.iter().map(|prepared| prepared.at)).min().unwrap_or(Nanos::MAX)
    }

    /// Hold the message, with some probability. Whether it is held.
    pub fn hold(&mut self, now: Nanos, message: &Delivery<Frame>, checks: &mut Checks) -> bool {
        if checks.is_last_round || self.held.len() >= MAX_HELD || !self.random.random_bool(self.work.hold) {
            return false;
        }
        checks.count_event("kept beyond its handler");
        self.held
            .push(HeldMessage { message: message.share(), at: now + self.random.random_range(1..=self.work.max_hold) });
        true
    }

    /// Release the messages that are due. Their content has not changed, whatever has arrived since.
    pub fn release_due_messages(&mut self, now: Nanos, engine: &mut Engine, checks: &mut Checks) -> Checked {
        while let Some(at) = self.held.iter().position(|held| held.at <= now) {
            let message = self.held.swap_remove(at).message;
            let (flow, class, serial) = (message.flow, message.class, message.words().at(1));
            checks.deliveries.check_unchanged(message.words().as_slice(), message.payload())?;
            drop(message);
            checks.credits.released(serial, class);
            engine.core_mut().release(flow, class, 1);
        }
        Ok(())
    }

    /// Write a request in the frame in which it leaves.
    pub fn prepare(&mut self, now: Nanos, flow: Flow, engine: &Engine) {
        let FlowState::Open { framing, max_body, .. } = engine.core().state(flow.id) else { return };
        let Some(mut frame) = engine.pool().take() else { return };
        let words = self.random.random_range(2..=MAX_WORDS);
        // A short body would be padded, and written again.
        let size = self.random.random_range(64.min(max_body)..=max_body);
        let id = MessageId { from: self.run, number: self.number };
        let body = frame.space().and_then(|space| space.get_mut(framing.body_at()..)?.get_mut(..size));
        let Some(body) = body else { return };
        fill(body, id, flow.serial);
        self.number += 1;
        let at = now + self.random.random_range(1..=self.work.max_hold);
        self.prepared.push(Prepared { frame, flow, id, words: words as u8, size, at });
    }

    /// Send the prepared requests that are due. One without credit waits. After the faults, those left are discarded.
    pub fn commit_due_requests(&mut self, now: Nanos, engine: &mut Engine, checks: &mut Checks) -> Checked {
        if checks.is_quiet(now) {
            self.prepared.clear();
        }
        while let Some(at) = self.prepared.iter().position(|prepared| prepared.at <= now) {
            let Prepared { frame, flow, id, words, size, .. } = self.prepared.swap_remove(at);
            let (core, handler) = (engine.core_mut(), id.number as u8);
            match core.send(flow.id, Class::Request, handler, words, frame, size, |_| ()) {
                Ok(()) => {
                    checks.count_event("prepared and committed");
                    checks.sent(id, flow.to, size, flow.serial, Class::Request, self.work.first_number);
                    self.check_credit(flow.serial, Class::Request, engine, checks)?;
                }
                Err((SendError::NoCredit | SendError::Full(_), frame)) => {
                    let at = now + self.work.pause;
                    self.prepared.push(Prepared { frame, flow, id, words, size, at });
                }
                Err((SendError::Ended(_) | SendError::Unknown, _)) => {
                    checks.count_event("prepared for a flow that ended")
                }
                Err((error, _)) => {
                    let what = format!("a prepared request was refused: {error}");
                    return Err(Violation { checker: "replies", what });
                }
            }
        }
        Ok(())
    }
}
