//! Peers that are alive and do not poll. A handler may sleep, and a program may compute for an hour between two calls.
//! Such a peer acknowledges nothing, and is not dead. Something gives signs of life for it: a heartbeat, which its
//! process sends beside the program's thread, or the transport, which knows that the process lives
//! ([`Core::on_peer_alive`]).
//!
//! ```text
//!             a sign of life, and no frame on a flow      no sign for a second: silence counts
//!   polling ─────────────────────────────────▶ not polling ─────────────────────────────▶ silent
//!      ▲                                          │ messages wait; few are sent again
//!      └──────────────────────────────────────────┘
//!          a beacon of the program itself, a frame on the flow
//! ```
//!
//! Pushed by: signs of life. Popped by: a beacon that the program itself sends; old entries when the table is full.
//! Bounded by: [`MAX_PEERS`](crate::MAX_PEERS). When full: the newest is ignored.

use std::time::Duration;

use am_wire::{Address, Buffer, Flow};

use crate::FlowId;
use crate::flow::FlowRecord;
use crate::mutants::{self, Mutant};
use crate::node::Core;
use crate::output::{Command, ReturnReason};
use crate::peers::PeerRun;
use crate::signs_of_life::{QUESTION_INTERVAL, SignsOfLife};
use crate::time::{Time, TimerKind};

/// The longest time after which a message to a peer that does not poll is sent again.
const MAX_RESEND_INTERVAL: Duration = Duration::from_secs(8);

impl<B: Buffer> Core<B> {
    /// From below: the peer at this address is alive, even if it sends nothing itself.
    #[cold]
    pub fn on_peer_alive(&mut self, address: Address) {
        if !mutants::is_active(Mutant::BusyIsDead) {
            self.discovery.not_polling.note(address, self.now);
        }
    }

    /// From below: a process is alive at this address. If no beacon came from there, it may be the peer that a set-up
    /// searches for.
    #[cold]
    pub fn on_stranger_alive(&mut self, address: Address) {
        if !self.discovery.peers.iter().any(|record| record.peer.address == address) {
            self.on_peer_alive(Address::BROADCAST);
        }
    }

    /// Getter: since when the peer of a flow is alive and does not poll. This node notices it while it waits for the peer.
    pub fn not_polling_since(&self, flow: FlowId) -> Option<Time> {
        let record = self.flows.get(flow)?;
        let signs = self.discovery.not_polling.recent(record.route.to, self.now)?;
        record.does_not_poll(&signs).then_some(signs.since)
    }

    /// The last sign of life of this run that was no frame on a flow.
    pub(crate) fn last_sign_of(&self, &(node, incarnation): &PeerRun) -> Option<Time> {
        if self.discovery.not_polling.0.is_empty() {
            return None;
        }
        let at = self.discovery.peers.by_node(node)?;
        let peer = &self.discovery.peers.records[at].peer;
        self.discovery.not_polling.last_sign(peer.address).filter(|_| peer.incarnation == incarnation)
    }

    /// A flow waits for its peer in vain. If the peer does not poll, its silence does not count. Returns whether this is
    /// so: the flow waits longer, or has ended.
    #[cold]
    pub(crate) fn wait_for_poll(&mut self, now: Time, flow: Flow) -> bool {
        let Some(record) = self.flows.by_flow(flow) else { return true };
        let to = record.route.to;
        record.silence.extend_to(self.discovery.not_polling.last_sign(to));
        let signs = self.discovery.not_polling.recent(to, now);
        let Some(signs) = signs.filter(|signs| record.does_not_poll(signs)) else { return false };
        let id = record.id;
        if self.config.poll_patience.is_some_and(|limit| now - signs.since >= limit) {
            self.end_flow(id, ReturnReason::NotPolling, None);
            return true;
        }
        self.outputs.commands.push_back(Command::AskAlive(to));
        record.send.0.iter().for_each(|queue| queue.forget_timeouts(&mut self.slots));
        self.time.timers.arm(&mut record.resend_timer, TimerKind::Resend, flow.id(), now + QUESTION_INTERVAL);
        // The longer it takes, the fewer: they fill the queue that the program finds afterwards.
        let interval = ((now - signs.since) / 2).clamp(QUESTION_INTERVAL, MAX_RESEND_INTERVAL);
        if record.in_flight() {
            let sent_at = record.oldest_sent_at(now, &self.slots);
            if sent_at.is_some_and(|sent_at| sent_at + interval <= now) {
                record.send.0.iter().for_each(|queue| _ = queue.resend_oldest(&mut self.slots, 1, None));
            }
        } else if signs.asked_at + interval <= now {
            self.sending.control.push(to, record.keepalive_question(self.config.max_message));
            self.discovery.not_polling.0.insert(to, SignsOfLife { asked_at: now, ..signs });
        }
        true
    }
}

impl FlowRecord {
    /// Whether no frame arrived on this flow after the last sign of life.
    fn does_not_poll(&self, signs: &SignsOfLife) -> bool {
        self.silence.since <= signs.last
    }
}
