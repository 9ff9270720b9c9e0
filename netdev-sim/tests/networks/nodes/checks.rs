//! All checkers of a run.

use std::collections::BTreeMap;

use am_engine::Engine;
use am_netdev_sim::check::content::MessageId;
use am_netdev_sim::check::credits::Credits;
use am_netdev_sim::check::delivery::{Deliveries, DeliveryOrder};
use am_netdev_sim::check::endings::Endings;
use am_netdev_sim::check::{Checked, frames};
use am_netdev_sim::{Nanos, Net};
use am_proto::ReturnReason;
use am_wire::Class;

use super::app::App;

/// Another node has this one's name.
pub const NAME_TAKEN: &str = "name taken";

#[derive(Debug, Default)]
pub struct Checks {
    pub deliveries: Deliveries,
    pub order: DeliveryOrder,
    pub credits: Credits,
    pub endings: Endings,
    /// The last requests are sent. Their answers bring the credit whose notice was lost, so every request is answered.
    pub is_last_round: bool,
    /// After this time the applications start nothing new.
    pub quiet_from: Nanos,
    /// A digest of all deliveries in their order. Two runs of a seed have the same.
    pub digest: u64,
    /// Every flow that was asked for: its number, its initiator, and the other node.
    pub asked: Vec<(u64, u16, u16)>,
    /// Messages that handlers got, by flow and class.
    pub delivered: BTreeMap<(u64, usize), usize>,
    /// How often each event has happened in this run.
    pub seen: Seen,
    pub frames: Vec<usize>,
}

/// Three flows of four keep the order of their messages.
pub fn is_ordered(serial: u64) -> bool {
    !serial.is_multiple_of(4)
}

/// How often each event has happened.
pub type Seen = BTreeMap<&'static str, u64>;

impl Checks {
    pub fn is_quiet(&self, now: Nanos) -> bool {
        now >= self.quiet_from
    }

    pub fn add_to_digest(&mut self, now: Nanos, what: u64) {
        self.digest = (self.digest ^ now ^ what.rotate_left(32)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    /// Count an event.
    pub fn count_event(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// A message was admitted.
    pub fn sent(&mut self, id: MessageId, to: u16, size: usize, serial: u64, class: Class, first_number: Option<u32>) {
        self.deliveries.sent(id, to, size, serial);
        if is_ordered(serial) {
            self.order.sent(id, (serial, class.index()));
        }
        self.credits.sent(serial, class);
        let (sent, _) = self.credits.counts(serial, class);
        if first_number.is_some_and(|first| sent as u64 == u32::MAX as u64 - first as u64 + 2) {
            self.count_event("numbers wrapped");
        }
    }

    /// One half of a flow reports its end. Unless the peer closed the flow, this side closes it too.
    pub fn ended(&mut self, serial: u64, reason: ReturnReason) {
        if reason != ReturnReason::Closed {
            self.endings.closed.insert(serial);
        }
    }

    /// A handler got a message.
    pub fn delivered(&mut self, serial: u64, class: Class) {
        *self.delivered.entry((serial, class.index())).or_default() += 1;
    }

    /// How many messages were admitted, and how many of these a handler got.
    pub fn counts(&self, serial: u64, class: Class) -> (usize, usize) {
        let delivered = self.delivered.get(&(serial, class.index())).copied();
        (self.credits.counts(serial, class).0, delivered.unwrap_or_default())
    }

    /// Check the credit that a node's flows have left.
    pub fn check_credits(&self, engine: &Engine, app: &App) -> Checked {
        app.credits(engine).try_for_each(|(serial, class, left)| self.credits.check(serial, class, left))
    }

    /// Check a node's NIC, and the frames that the node holds.
    pub fn check_nic(&mut self, net: &mut Net, node: usize, engine: &Engine, app: &App) -> Checked {
        self.frames.clear();
        engine.core().frames(&mut |frame| self.frames.push(frame.index()));
        app.frames(&mut |frame| self.frames.push(frame.index()));
        frames::check_running(net.nic(node), &self.frames)?;
        frames::check_bounds(net, node)
    }
}
