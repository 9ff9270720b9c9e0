//! What is under way on a flow, for reports.

use core::time::Duration;

use am_wire::{Buffer, Class};

use crate::FlowId;
use crate::flow::Phase;
use crate::node::Core;
use crate::time::Time;

/// What is under way on an open flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStatistics {
    /// By class: messages that are sent and not acknowledged, or wait for credit.
    pub outstanding: [usize; 2],
    /// How many of them were sent more than once.
    pub resent: usize,
    /// How many more requests the peer has room for.
    pub credit: usize,
    /// The smoothed round-trip time. `None` before the first sample.
    pub round_trip: Option<Duration>,
    /// When the message that waits longest for its acknowledgement was sent last.
    pub oldest_sent_at: Option<Time>,
    /// Since when the peer's process is alive and does not poll.
    pub not_polling_since: Option<Time>,
}

impl<B: Buffer> Core<B> {
    /// Getter: what is under way on a flow. `None` unless it is open. It looks at each message of the flow, so it is for
    /// reports.
    pub fn statistics(&self, flow: FlowId) -> Option<FlowStatistics> {
        let record = self.flows.get(flow).filter(|record| record.phase == Phase::Open)?;
        let kept = || Class::ALL.iter().flat_map(|&class| record.send[class].kept(&self.slots));
        Some(FlowStatistics {
            outstanding: Class::ALL.map(|class| record.send[class].outstanding(&self.slots)),
            resent: kept().filter(|(_, slot)| slot.times_sent > 1).map(|(link, _)| self.slots.left(link).count()).sum(),
            credit: record.send[Class::Request].credit() as usize,
            round_trip: record.rtt.smoothed(),
            oldest_sent_at: kept().filter(|(_, slot)| slot.times_sent > 0).map(|(_, slot)| slot.sent_at).min(),
            not_polling_since: self.not_polling_since(flow),
        })
    }
}
