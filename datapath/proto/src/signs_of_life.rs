//! The signs of life of peers: the data of [`not_polling`](crate::not_polling).

use std::collections::HashMap;
use std::time::Duration;

use am_wire::Address;

use crate::peers::MAX_PEERS;
use crate::time::Time;

/// How long a sign of life counts. Four heartbeats are sent in this time, since some may be lost.
const SIGN_COUNTS: Duration = Duration::from_millis(900);
/// How often a flow that waits for a peer asks the transport for a sign of life.
pub(crate) const QUESTION_INTERVAL: Duration = Duration::from_millis(250);

/// The signs of life of a peer that does not poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignsOfLife {
    /// The first of an unbroken row.
    pub(crate) since: Time,
    pub(crate) last: Time,
    /// When a flow last asked this peer for credit.
    pub(crate) asked_at: Time,
}

/// The peers that do not poll, by address.
#[derive(Debug)]
pub(crate) struct NotPolling(pub(crate) HashMap<Address, SignsOfLife>);

impl Default for NotPolling {
    /// With room for a few, because this node may be descheduled at any time, and then asks for signs of life.
    fn default() -> Self {
        NotPolling(HashMap::with_capacity(16))
    }
}

impl NotPolling {
    pub(crate) fn note(&mut self, peer: Address, now: Time) {
        if self.0.len() >= MAX_PEERS {
            self.0.retain(|_, signs| now - signs.last < SIGN_COUNTS);
        }
        let before = self.recent(peer, now);
        if before.is_some() || self.0.len() < MAX_PEERS {
            let signs = before.unwrap_or(SignsOfLife { since: now, last: now, asked_at: now });
            self.0.insert(peer, SignsOfLife { last: now, ..signs });
        }
    }

    /// The peer's signs of life, if the last one still counts.
    pub(crate) fn recent(&self, peer: Address, now: Time) -> Option<SignsOfLife> {
        self.0.get(&peer).copied().filter(|signs| now - signs.last < SIGN_COUNTS)
    }

    /// Whether the peer is alive, and has not failed to poll for longer than `patience`.
    pub(crate) fn waits_for(&self, peer: Address, now: Time, patience: Option<Duration>) -> bool {
        self.recent(peer, now).is_some_and(|signs| patience.is_none_or(|patience| now - signs.since < patience))
    }

    /// The last sign of life, however old.
    pub(crate) fn last_sign(&self, peer: Address) -> Option<Time> {
        self.0.get(&peer).map(|signs| signs.last)
    }
}
