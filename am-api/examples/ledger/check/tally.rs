//! What was counted.

use std::collections::HashMap;

/// Of each kind of wrong ones the first are told.
const TOLD: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    pub(crate) handled: u64,
    pub(crate) replied: u64,
    pub(crate) returned: u64,
    pub(crate) unknown_killed: u64,
    pub(crate) unknown_silent: u64,
    pub(crate) unhandled: u64,
    pub(crate) client_closed: u64,
    pub(crate) server_closed: u64,
    pub(crate) both_closed: u64,
    pub(crate) silent_killed: u64,
    pub(crate) silent_silent: u64,
    pub(crate) client_killed: u64,
    pub(crate) client_left: u64,
    pub(crate) replies_returned: u64,
    pub(crate) replies_refused: u64,
    pub(crate) replies_killed: u64,
    pub(crate) replies_silent: u64,
    pub(crate) replies_unhandled: u64,
    pub(crate) replies_dropped: u64,
    pub(crate) wrong: u64,
    pub(crate) told: Vec<String>,
    kinds: HashMap<String, (u64, usize)>,
}

impl Tally {
    /// Something of this connection is wrong: `what`, and all that is known.
    pub(crate) fn wrong(&mut self, connection: u64, what: &str, story: impl FnOnce() -> String) {
        self.wrong += 1;
        let kind = what.chars().filter(|c| !c.is_ascii_digit()).collect();
        let (last, told) = self.kinds.entry(kind).or_default();
        if *told < TOLD && (*told == 0 || *last != connection) {
            (*last, *told) = (connection, *told + 1);
            self.told.push(story());
        }
    }

    /// What is printed of it: key, words, number.
    pub(crate) fn rows(&self) -> [(&'static str, &'static str, u64); 22] {
        [
            ("connections", "connections", self.connections),
            ("requests", "requests", self.requests),
            ("handled", "  handled, once and in order", self.handled),
            ("replied", "  replied to", self.replied),
            ("not_delivered", "  came back, and were not handled", self.returned),
            ("unhandled", "  acknowledged, and told to be unhandled", self.unhandled),
            ("unknown_killed", "  came back as unknown: the server was killed", self.unknown_killed),
            ("unknown_silent", "  came back as unknown: somebody was silent", self.unknown_silent),
            ("no_outcome_killed", "  acknowledged, no more: the server was killed", self.silent_killed),
            ("no_outcome_silent", "  acknowledged, no more: somebody was silent", self.silent_silent),
            ("client_closed", "  handled, and the client closed before the reply", self.client_closed),
            ("server_closed", "  handled, and the server closed before the reply", self.server_closed),
            ("both_closed", "  acknowledged, and both sides closed", self.both_closed),
            ("client_left", "  the client left before it heard", self.client_left),
            ("client_killed", "  the client was killed before it heard", self.client_killed),
            ("replies_refused", "replies that were refused: the connection was closed", self.replies_refused),
            ("replies_not_delivered", "  came back, and were not handled", self.replies_returned),
            ("replies_unhandled", "  acknowledged, and told to be unhandled", self.replies_unhandled),
            ("replies_dropped", "  acknowledged, and the client closed, then left", self.replies_dropped),
            ("replies_unknown_killed", "  came back as unknown: the client was killed", self.replies_killed),
            ("replies_unknown_silent", "  came back as unknown: somebody was silent", self.replies_silent),
            ("wrong", "wrong", self.wrong),
        ]
    }
}
