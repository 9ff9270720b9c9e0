//! One connection: is everything as `docs/promises.md` says?

use am_api::ReturnReason;

use super::connection::{Connection, Over};
use super::{Excuse, Tally, World};
use crate::book::Kind;
use crate::client::SETTLES;
use crate::players::End;

struct Case<'a> {
    world: &'a World<'a>,
    name: u64,
    connection: &'a Connection,
    tally: &'a mut Tally,
    handled: Vec<bool>,
    replied: Vec<bool>,
}

pub(super) fn judge(world: &World<'_>, name: u64, connection: &Connection, tally: &mut Tally) {
    let [handled, replied] = [Kind::Handled, Kind::Replied].map(|kind| connection.flags(kind));
    let mut case = Case { world, name, connection, tally, handled, replied };
    case.tally.connections += 1;
    case.tally.requests += u64::from(connection.sent);
    case.order();
    case.requests();
    case.replies();
}

impl Case<'_> {
    fn wrong(&mut self, what: &str) {
        let (name, connection) = (self.name, self.connection);
        self.tally.wrong(name, what, || {
            let Some(client) = self.world.client(name) else { return format!("connection {name:x}: {what}") };
            let (player, sent, end) = (client.player, connection.sent, client.end.after(connection.opened));
            let story = connection.story();
            format!("connection {name:x} of client {player} ({end}): {what}; {sent} sent{story}")
        });
    }

    /// Messages are handled once and in order, replies likewise, and messages come back in order. Only where a message came
    /// back may the next one handled be a later one: it had arrived when the connection ended.
    fn order(&mut self) {
        let flags = |kinds: &[Kind]| {
            let all: Vec<Vec<bool>> = kinds.iter().map(|&kind| self.connection.flags(kind)).collect();
            (0..self.connection.sent as usize).map(|at| all.iter().any(|flags| flags[at])).collect::<Vec<bool>>()
        };
        let mut replies_absent = flags(&[Kind::ReplyNotDelivered, Kind::ReplyUnknown, Kind::Refused]);
        replies_absent.iter_mut().zip(&self.handled).for_each(|(absent, handled)| *absent |= !handled);
        let absent = [flags(&[Kind::NotDelivered, Kind::Unknown]), replies_absent];
        for (kind, starts) in [
            (Kind::Handled, Some(0)),
            (Kind::Replied, Some(0)),
            (Kind::NotDelivered, None),
            (Kind::Unknown, None),
            (Kind::ReplyNotDelivered, None),
            (Kind::ReplyUnknown, None),
        ] {
            let mut next = starts;
            for (first, count) in self.connection.runs(kind) {
                if next.is_some_and(|next| first < next) {
                    self.wrong(&format!("{kind:?} {first} a second time, or after a later one"));
                } else if next.is_some_and(|next| !absent_between(&absent, kind, next, first)) {
                    self.wrong(&format!("{kind:?} {first} next, not {}", next.unwrap_or(0)));
                }
                if first.saturating_add(count) > self.connection.sent {
                    self.wrong(&format!("{kind:?} {first} and {count} more, which nobody sent"));
                }
                next = Some(first.saturating_add(count));
            }
        }
        if self.connection.other_server {
            self.wrong("handled by two servers");
        }
        if self.connection.runs(Kind::Spoilt).next().is_some() {
            self.wrong("a message is not as it was sent");
        }
    }

    fn requests(&mut self) {
        let [returned, unknown] = [Kind::NotDelivered, Kind::Unknown].map(|kind| self.connection.flags(kind));
        let mut silent = vec![];
        for at in 0..self.connection.sent as usize {
            let outcomes = [self.replied[at], returned[at], unknown[at]];
            self.tally.handled += u64::from(self.handled[at]);
            self.tally.replied += u64::from(self.replied[at]);
            self.tally.returned += u64::from(returned[at]);
            match outcomes.iter().filter(|&&is| is).count() {
                0 => silent.push(at),
                1 => {}
                _ => self.wrong(&format!("request {at} has two outcomes")),
            }
            if self.replied[at] && !self.handled[at] {
                self.wrong(&format!("request {at} was replied to and not handled"));
            }
            if returned[at] && self.handled[at] {
                self.wrong(&format!("request {at} came back as not delivered and was handled"));
            }
        }
        let count = unknown.iter().filter(|&&is| is).count() as u64;
        match (count, self.excuse(true)) {
            (0, _) => {}
            (_, Some(Excuse::Killed)) => self.tally.unknown_killed += count,
            (_, Some(Excuse::Silent)) => self.tally.unknown_silent += count,
            (_, None) => {
                self.wrong(&format!("{count} requests of unknown fate, and the server was neither killed nor silent"))
            }
        }
        self.silent(&silent);
    }

    /// When the client noted the end.
    fn ended(&self) -> u64 {
        match self.connection.client_over {
            Some(Over::Closed(at) | Over::Left(at) | Over::Ended(at, ..)) => at,
            None => u64::MAX - NEVER,
        }
    }

    fn excuse(&self, of_server: bool) -> Option<Excuse> {
        let ended = match (of_server, self.connection.server_over) {
            (false, Some(Over::Closed(at) | Over::Left(at) | Over::Ended(at, ..))) => at,
            _ => self.ended(),
        };
        self.world.excuse(self.name, self.connection, of_server, ended)
    }

    /// Requests that were acknowledged, and neither replied to nor returned.
    fn silent(&mut self, silent: &[usize]) {
        let count = silent.len() as u64;
        let Some(client) = self.world.client(self.name) else { return self.wrong("no client has opened it") };
        match self.connection.client_over {
            None if matches!(client.end, End::Killed(_)) => self.tally.client_killed += count,
            None => self.wrong("its client was not killed, and has not noted its end"),
            Some(Over::Left(_)) => self.tally.client_left += count,
            // What comes back after a close comes within this time.
            Some(Over::Closed(at)) if matches!(client.end, End::Killed(killed) if killed < at + SETTLES.as_millis() as u64) =>
            {
                self.tally.client_killed += count;
            }
            Some(Over::Closed(_)) => self.answered_by_nobody(silent),
            Some(Over::Ended(_, reason, unhandled)) => {
                let (before, dropped) = silent.split_at(silent.len().saturating_sub(unhandled as usize));
                self.tally.unhandled += dropped.len() as u64;
                if dropped.len() < unhandled as usize {
                    self.wrong("more are said to be unhandled than have no outcome");
                }
                if let Some(at) = dropped.iter().find(|&&at| self.handled[at]) {
                    self.wrong(&format!("request {at} is said to be unhandled and was handled"));
                }
                if reason == ReturnReason::Closed {
                    self.answered_by_nobody(before);
                } else {
                    self.lost(before);
                }
            }
        }
    }

    /// Of a connection that was closed: they were handled, and the replies went with the end that closed.
    fn answered_by_nobody(&mut self, silent: &[usize]) {
        let (handled, lost): (Vec<usize>, Vec<usize>) = silent.iter().partition(|&&at| self.handled[at]);
        let by_client = matches!(self.connection.client_over, Some(Over::Closed(_)));
        let count = if by_client { &mut self.tally.client_closed } else { &mut self.tally.server_closed };
        *count += handled.len() as u64;
        if by_client && matches!(self.connection.server_over, Some(Over::Left(_))) {
            // Both sides closed it, the server with requests that it had not handled: a side that closes is not told how many.
            self.tally.both_closed += lost.len() as u64;
        } else {
            self.lost(&lost);
        }
    }

    /// Nothing is known of them, for a reason.
    fn lost(&mut self, silent: &[usize]) {
        let count = silent.len() as u64;
        match (silent.first(), self.excuse(true)) {
            (None, _) => {}
            (_, Some(Excuse::Killed)) => self.tally.silent_killed += count,
            (_, Some(Excuse::Silent)) => self.tally.silent_silent += count,
            (Some(at), None) => self.wrong(&format!(
                "request {at} and {} more without outcome, and the server was neither killed nor silent",
                count - 1
            )),
        }
    }

    fn replies(&mut self) {
        let kinds = [Kind::Refused, Kind::ReplyNotDelivered, Kind::ReplyUnknown];
        let [refused, returned, unknown] = kinds.map(|kind| self.connection.flags(kind));
        let all = 0..self.connection.sent as usize;
        for at in all.clone() {
            if returned[at] && self.replied[at] {
                self.wrong(&format!("reply {at} came back as not delivered and was handled"));
            }
        }
        let count = |flags: &[bool]| flags.iter().filter(|&&is| is).count() as u64;
        self.tally.replies_returned += count(&returned);
        self.tally.replies_refused += count(&refused);
        match (count(&unknown), self.excuse(false)) {
            (0, _) => {}
            (unknown, Some(Excuse::Killed)) => self.tally.replies_killed += unknown,
            (unknown, Some(Excuse::Silent)) => self.tally.replies_silent += unknown,
            (unknown, None) => {
                self.wrong(&format!("{unknown} replies of unknown fate, and the client was neither killed nor silent"));
            }
        }
        let sent = all.filter(|&at| self.handled[at] && !(refused[at] || returned[at] || unknown[at]));
        let sent: Vec<usize> = sent.collect();
        self.acknowledged(&sent);
    }

    /// Replies that did not come back to the server.
    fn acknowledged(&mut self, sent: &[usize]) {
        let Some(server) = self.connection.server.map(|at| &self.world.lives[at]) else { return };
        match self.connection.server_over {
            None if matches!(server.end, End::Killed(_)) => {}
            None => self.wrong("its server was not killed, and has not noted its end"),
            Some(Over::Closed(_) | Over::Left(_)) => {}
            Some(Over::Ended(_, reason, unhandled)) => {
                let (before, dropped) = sent.split_at(sent.len().saturating_sub(unhandled as usize));
                self.tally.replies_unhandled += dropped.len() as u64;
                if let Some(at) = dropped.iter().find(|&&at| self.replied[at]) {
                    self.wrong(&format!("reply {at} is said to be unhandled and was handled"));
                }
                let lost: Vec<usize> = before.iter().copied().filter(|&at| !self.replied[at]).collect();
                if self.connection.closed_and_left {
                    self.tally.replies_dropped += lost.len() as u64;
                } else if let (Some(at), None) = (lost.first(), self.excuse(false)) {
                    self.wrong(&format!(
                        "reply {at} did not come back and was not handled; the server heard {reason:?}"
                    ));
                }
            }
        }
    }
}

/// Whether all of these came back, or never were: what may be missing between two messages that were handled.
fn absent_between([requests, replies]: &[Vec<bool>; 2], kind: Kind, first: u32, end: u32) -> bool {
    let absent = match kind {
        Kind::Handled => requests,
        Kind::Replied => replies,
        // These kinds come back from anywhere in the order.
        _ => return true,
    };
    absent.get(first as usize..end as usize).is_some_and(|absent| absent.iter().all(|&absent| absent))
}

/// Of a client that was killed: whatever happens until the end of the run.
const NEVER: u64 = 1 << 20;
