//! What was counted.

/// The first wrong ones that are told.
const TOLD: usize = 5;

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
    pub(crate) no_reply: u64,
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
    pub(crate) wrong: u64,
    pub(crate) told: Vec<String>,
    last: Option<u64>,
}

impl Tally {
    /// Something of this connection is wrong; of each the first is told.
    pub(crate) fn wrong(&mut self, connection: u64, what: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.told.len() < TOLD && self.last.replace(connection) != Some(connection) {
            self.told.push(what());
        }
    }

    /// What is printed of it: key, words, number.
    pub(crate) fn rows(&self) -> [(&'static str, &'static str, u64); 20] {
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
            ("no_reply", "  handled, and a side closed before the reply", self.no_reply),
            ("both_closed", "  acknowledged, and both sides closed", self.both_closed),
            ("client_left", "  the client left before it heard", self.client_left),
            ("client_killed", "  the client was killed before it heard", self.client_killed),
            ("replies_refused", "replies that were refused: the connection was closed", self.replies_refused),
            ("replies_not_delivered", "  came back, and were not handled", self.replies_returned),
            ("replies_unhandled", "  acknowledged, and told to be unhandled", self.replies_unhandled),
            ("replies_unknown_killed", "  came back as unknown: the client was killed", self.replies_killed),
            ("replies_unknown_silent", "  came back as unknown: somebody was silent", self.replies_silent),
            ("wrong", "wrong", self.wrong),
        ]
    }
}
