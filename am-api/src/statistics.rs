//! What is under way on a connection, for reports.

use std::time::Duration;

use crate::{Connection, Endpoint};

/// What is under way on an open connection: see [`Endpoint::statistics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStatistics {
    /// Requests, segments of transfers and of long messages: sent and not acknowledged, or waiting for credit.
    pub requests: usize,
    /// Replies: the same.
    pub replies: usize,
    /// How many of all these were sent more than once.
    pub resent: usize,
    /// How many more requests the peer has room for.
    pub credit: usize,
    /// The smoothed round-trip time. `None` before the first sample.
    pub round_trip: Option<Duration>,
    /// How long ago the message that waits longest for its acknowledgement was sent last.
    pub oldest: Option<Duration>,
    /// How long the peer's process has been alive without polling. `None` while it polls, and while nothing waits for it.
    pub not_polling: Option<Duration>,
}

impl<S> Endpoint<S> {
    /// What is under way on a connection. `None` while it is not open. It looks at each message of the connection, so call it for reports
    /// and not in each turn.
    ///
    /// ```
    /// use am_api::{Connection, Endpoint};
    ///
    /// /// A line for a log.
    /// fn line(endpoint: &Endpoint<()>, of: Connection) -> Option<String> {
    ///     let of = endpoint.statistics(of)?;
    ///     Some(format!("{} requests under way, {} of them again, room for {}", of.requests, of.resent, of.credit))
    /// }
    /// ```
    pub fn statistics(&self, of: Connection) -> Option<ConnectionStatistics> {
        let node = self.node.borrow();
        let (now, flow) = (node.clock.now(), node.engine.core().statistics(of.0)?);
        let [requests, replies] = flow.outstanding;
        Some(ConnectionStatistics {
            requests,
            replies,
            resent: flow.resent,
            credit: flow.credit,
            round_trip: flow.round_trip,
            oldest: flow.oldest_sent_at.map(|at| now - at),
            not_polling: flow.not_polling_since.map(|at| now - at),
        })
    }
}
