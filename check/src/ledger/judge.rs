//! Compares the books of both sides: all records of a connection together. Checks that each connection went as
//! `docs/promises.md` says, and counts.

use std::collections::HashMap;
use std::fmt::Write;
use std::io;

use am_api::ReturnReason;

use super::book::{self, Kind, Record};
use super::peer::SETTLES;
use super::players::{End, Kind as Transport, Life, Players};

/// The most lines of a story. Earlier ones are left out.
const MAX_STORY_LINES: usize = 20;
/// The most connections that are printed for each kind of error.
const MAX_TOLD: usize = 2;

/// The most milliseconds from a silence to the end of a connection: a node's patience (1.5 s), and a margin.
const NOTICED_WITHIN: u64 = 2500;
/// Milliseconds that may lie between an action of the driver and a process's note of it.
const SLACK: u64 = 200;
/// The most messages that a connection has under way at its end. A client sends on while replies are missing, and each request that was
/// handled keeps one of its server's slots until its reply has been accepted: a node has this many.
const MAX_UNDER_WAY: usize = 2048;
/// Stands for the end of a connection that no book has the end of. It leaves room for [`SLACK`].
const NEVER: u64 = u64::MAX - SLACK;

/// Read all books, and judge each connection.
pub(crate) fn check(players: &Players, tally: &mut Tally) -> io::Result<()> {
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut drops = vec![];
    for (at, life) in players.lives.iter().enumerate() {
        tally.add("lost", book::lost(&life.book) as usize);
        for record in book::read(&life.book)? {
            match record.connection {
                book::ENDPOINT if life.serves => drops.push(record.time),
                book::ENDPOINT => (),
                connection => connections.entry(connection).or_default().add(at, &record),
            }
        }
    }
    let mut names: Vec<u64> = connections.keys().copied().collect();
    names.sort_unstable();
    names.into_iter().for_each(|name| judge(players, &drops, name, &connections[&name], tally));
    Ok(())
}

/// Everything that is counted: key and text.
pub(crate) const ROWS: [(&str, &str); 37] = [
    ("connections", "connections"),
    ("requests", "requests"),
    ("handled", "  handled, once and in order"),
    ("replied", "  replied to"),
    ("not_delivered", "  came back, and were not handled"),
    ("unhandled", "  acknowledged, and reported as unhandled"),
    ("unknown_killed", "  came back as unknown: the server was killed"),
    ("unknown_silent", "  came back as unknown: a process was silent"),
    ("no_outcome_killed", "  acknowledged, no more: the server was killed"),
    ("no_outcome_silent", "  acknowledged, no more: a process was silent"),
    ("client_closed", "  handled, and the client closed before the reply"),
    ("server_closed", "  handled, and the server closed before the reply"),
    ("both_closed", "  acknowledged, and both sides closed"),
    ("client_left", "  the client left before the reply"),
    ("client_killed", "  the client was killed before the reply"),
    ("replies_refused", "replies that were refused: the connection was closed"),
    ("replies_not_delivered", "  came back, and were not handled"),
    ("replies_unhandled", "  acknowledged, and reported as unhandled"),
    ("replies_unheard", "  acknowledged or not: the server closed, or was killed, before it knew"),
    ("replies_dropped", "  acknowledged, and the client closed, then left"),
    ("replies_unknown_killed", "  came back as unknown: the client was killed"),
    ("replies_unknown_silent", "  came back as unknown: a process was silent"),
    ("server_kills", "the server was killed"),
    ("client_kills", "clients were killed"),
    ("server_leaves", "the server left"),
    ("client_leaves", "clients left"),
    ("server_stops", "the server was stopped for a while"),
    ("client_stops", "clients were stopped for a while"),
    ("server_flaps", "the server's interface was down"),
    ("client_flaps", "clients' interfaces were down"),
    ("daemon_kills", "a daemon was killed"),
    ("daemon_leaves", "a daemon ended, and the next one went on"),
    ("daemon_stops", "a daemon was stopped for a while"),
    ("daemon_flaps", "a daemon's interface was down"),
    ("lost", "frames were lost on purpose"),
    ("seconds", "seconds"),
    ("wrong", "wrong"),
];

#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: HashMap<String, u64>,
    pub(crate) told: Vec<String>,
    kinds: HashMap<String, (u64, usize)>,
}

impl Tally {
    /// Add to the count of one of [`ROWS`].
    pub(crate) fn add(&mut self, key: &str, count: usize) {
        debug_assert!(ROWS.iter().any(|(known, _)| *known == key), "{key}");
        *self.counts.entry(key.to_owned()).or_default() += count as u64;
    }

    /// Count an error of no connection.
    pub(crate) fn fail(&mut self, why: String) {
        self.add("wrong", 1);
        self.told.push(why);
    }

    pub(crate) fn get(&self, key: &str) -> u64 {
        self.counts.get(key).copied().unwrap_or_default()
    }

    /// Count an error of this connection. Print the connection, unless enough of this kind are printed.
    pub(crate) fn wrong(&mut self, connection: u64, what: &str, story: impl FnOnce() -> String) {
        self.add("wrong", 1);
        let kind = what.chars().filter(|c| !c.is_ascii_digit()).collect();
        let (last, told) = self.kinds.entry(kind).or_default();
        if *told < MAX_TOLD && (*told == 0 || *last != connection) {
            (*last, *told) = (connection, *told + 1);
            self.told.push(story());
        }
    }
}

/// How a side saw the connection end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideEnd {
    /// It closed the connection, and noted what came back.
    Closed(u64),
    /// It dropped its node or endpoint, and noted nothing more.
    Left(u64),
    /// Its node reported the end, and the number of its messages that were acknowledged and not handled.
    Ended(u64, ReturnReason, u32),
}

#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) opened: u64,
    pub(crate) sent: u32,
    pub(crate) client_end: Option<SideEnd>,
    pub(crate) server_end: Option<SideEnd>,
    /// The client closed it, then left: it may not have handled what had arrived.
    pub(crate) closed_and_left: bool,
    /// The server closed its endpoint before the end, or a moment after it.
    pub(crate) server_left: bool,
    /// The process that handled its requests; `other_server` if there was a second one.
    pub(crate) server: Option<usize>,
    pub(crate) other_server: bool,
    /// In the order in which each process noted them.
    records: Vec<(usize, Record)>,
}

impl Connection {
    /// Add a record from the book of this process.
    pub(crate) fn add(&mut self, by: usize, record: &Record) {
        let &Record { time, kind, first, count, reason, .. } = record;
        let is_client = (record.connection >> 32) as usize == by;
        self.records.push((by, *record));
        match kind {
            Kind::Opened => self.opened = time,
            Kind::Sent => self.sent = first + count,
            Kind::Closed => self.client_end = Some(SideEnd::Closed(time)),
            Kind::Left | Kind::Ended => {
                self.closed_and_left |= kind == Kind::Left && matches!(self.client_end, Some(SideEnd::Closed(_)));
                self.server_left |= kind == Kind::Left && !is_client;
                let unhandled = if is_client { first } else { count };
                let end = if is_client { &mut self.client_end } else { &mut self.server_end };
                match (kind, reason) {
                    (Kind::Ended, Some(reason)) => *end = Some(SideEnd::Ended(time, reason, unhandled)),
                    // A server that leaves a moment after the end notes both. Keep the end.
                    _ if !is_client && end.is_some() => {}
                    _ => *end = Some(SideEnd::Left(time)),
                }
            }
            Kind::Handled => {
                self.other_server |= self.server.is_some_and(|server| server != by);
                self.server = Some(by);
            }
            _ => {}
        }
    }

    /// First number and count of each record of this kind.
    pub(crate) fn runs(&self, kind: Kind) -> impl Iterator<Item = (u32, u32)> {
        let records = self.records.iter().map(|(_, record)| record);
        records.filter(move |record| record.kind == kind).map(|record| (record.first, record.count))
    }

    /// When this happened for the first time.
    pub(crate) fn first(&self, kind: Kind) -> Option<u64> {
        self.records.iter().map(|(_, record)| record).find(|record| record.kind == kind).map(|record| record.time)
    }

    /// For each number, whether one of these happened to it.
    pub(crate) fn flags(&self, kinds: &[Kind]) -> Vec<bool> {
        let mut flags = vec![false; self.sent as usize];
        for (first, count) in kinds.iter().flat_map(|&kind| self.runs(kind)) {
            let range = first as usize..(first as usize).saturating_add(count as usize).min(flags.len());
            flags.get_mut(range).into_iter().for_each(|flags| flags.fill(true));
        }
        flags
    }

    /// The last records, as text.
    pub(crate) fn story(&self) -> String {
        let mut story = String::new();
        let skipped = self.records.len().saturating_sub(MAX_STORY_LINES);
        if skipped > 0 {
            _ = write!(story, "\n      {skipped} earlier lines");
        }
        for (by, record) in &self.records[skipped..] {
            let Record { time, kind, first, count, reason, .. } = record;
            let after = *time as i64 - self.opened as i64;
            let why = reason.map_or(String::new(), |reason| format!(" {reason:?}"));
            let what = match kind {
                Kind::Ended => format!("{kind:?}{why}, unhandled {first} requests {count} replies"),
                Kind::Opened | Kind::Closed | Kind::Left => format!("{kind:?}"),
                _ => format!("{kind:?}{why} {first}..{}", first.wrapping_add(*count)),
            };
            _ = write!(story, "\n      process {by} at {after} ms: {what}");
        }
        story
    }
}

/// The two reasons for which the fate of a message may be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excuse {
    Killed,
    Silent,
}

struct Case<'a> {
    players: &'a Players,
    /// When servers dropped their endpoints.
    drops: &'a [u64],
    name: u64,
    connection: &'a Connection,
    /// The process that opened it.
    client: Option<&'a Life>,
    tally: &'a mut Tally,
    handled: Vec<bool>,
    replied: Vec<bool>,
}

fn judge(players: &Players, drops: &[u64], name: u64, connection: &Connection, tally: &mut Tally) {
    let [handled, replied] = [Kind::Handled, Kind::Replied].map(|kind| connection.flags(&[kind]));
    tally.add("connections", 1);
    tally.add("requests", connection.sent as usize);
    tally.add("handled", count(&handled));
    tally.add("replied", count(&replied));
    let client = players.lives.get((name >> 32) as usize).filter(|life| life.player > 0);
    let mut case = Case { players, drops, name, connection, client, tally, handled, replied };
    case.order();
    case.requests();
    case.replies();
}

fn count(flags: &[bool]) -> usize {
    flags.iter().filter(|&&is| is).count()
}

/// Whether a process was killed before all that could come back after this end had come back.
fn is_killed_soon_after(ended: u64, process: End) -> bool {
    matches!(process, End::Killed(at) if at < ended + SETTLES.as_millis() as u64)
}

impl Case<'_> {
    fn wrong(&mut self, what: &str) {
        self.tally.wrong(self.name, what, || {
            let (name, sent, opened) = (self.name, self.connection.sent, self.connection.opened);
            let Some(client) = self.client else { return format!("connection {name:x}: {what}") };
            let end = match client.end {
                End::Lives => "it lives".to_owned(),
                End::Killed(at) => format!("killed at {} ms", at as i64 - opened as i64),
                End::Left => "it left".to_owned(),
            };
            let (player, story) = (client.player, self.connection.story());
            let drops = self.drops.iter().map(|&at| at as i64 - opened as i64).filter(|at| at.abs() < 10_000);
            let drops: Vec<i64> = drops.collect();
            format!(
                "connection {name:x} of client {player} ({end}): {what}; {sent} sent, a server dropped its endpoint at \
                 {drops:?} ms{story}"
            )
        });
    }

    /// Requests and replies are handled once and in order, and come back in order. The numbers that are handled may skip
    /// only messages that came back, or were never sent.
    fn order(&mut self) {
        let mut replies_absent = self.connection.flags(&[Kind::ReplyNotDelivered, Kind::ReplyUnknown, Kind::Refused]);
        replies_absent.iter_mut().zip(&self.handled).for_each(|(absent, handled)| *absent |= !handled);
        // What handled requests, and handled replies, may skip. What comes back may skip anything.
        let mut requests_absent = self.connection.flags(&[Kind::NotDelivered, Kind::Unknown]);
        // A lost message comes back at the end of its connection. A sender that is gone by then notes nothing of it.
        let is_gone = |left: bool, sender: Option<&Life>| {
            self.players.loses_frames() && (left || sender.is_some_and(|sender| matches!(sender.end, End::Killed(_))))
        };
        let server = self.connection.server.and_then(|server| self.players.lives.get(server));
        let has_client_left = matches!(self.connection.client_end, Some(SideEnd::Left(_)));
        for (absent, is_sender_gone) in [
            (&mut requests_absent, is_gone(has_client_left, self.client)),
            (&mut replies_absent, is_gone(self.connection.server_left, server)),
        ] {
            if is_sender_gone {
                let under_way = absent.len().saturating_sub(MAX_UNDER_WAY);
                absent[under_way..].fill(true);
            }
        }
        for (kind, may_be_absent) in [
            (Kind::Handled, Some(requests_absent)),
            (Kind::Replied, Some(replies_absent)),
            (Kind::NotDelivered, None),
            (Kind::Unknown, None),
            (Kind::ReplyNotDelivered, None),
            (Kind::ReplyUnknown, None),
        ] {
            let mut next = may_be_absent.is_some().then_some(0);
            for (first, count) in self.connection.runs(kind) {
                let are_absent = |next: u32| match &may_be_absent {
                    Some(absent) => {
                        absent.get(next as usize..first as usize).is_some_and(|absent| absent.iter().all(|&is| is))
                    }
                    None => true,
                };
                match next {
                    Some(next) if first < next => {
                        self.wrong(&format!("{kind:?} {first} a second time, or after a later one"));
                    }
                    Some(next) if !are_absent(next) => self.wrong(&format!("{kind:?} {first} next, not {next}")),
                    _ => {}
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
        let [returned, unknown] = [Kind::NotDelivered, Kind::Unknown].map(|kind| self.connection.flags(&[kind]));
        self.tally.add("not_delivered", count(&returned));
        let mut without_outcome = vec![];
        for at in 0..self.connection.sent as usize {
            match count(&[self.replied[at], returned[at], unknown[at]]) {
                0 => without_outcome.push(at),
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
        self.excused(count(&unknown), true, ["unknown_killed", "unknown_silent"], |count| {
            format!("{count} requests of unknown fate, and the server was neither killed nor silent")
        });
        self.without_outcome(&without_outcome);
    }

    /// Why the fate of a message may be unknown: of a request to the server, or else of a reply to the client.
    fn excuse(&self, of_server: bool) -> Option<Excuse> {
        let client = self.client?;
        // When the client noted the end; for replies when the server did, if it did. A process that was killed just before, or has closed
        // the connection before it heard of the end and left much later, has only noted what came back.
        let unknown = if of_server { Kind::Unknown } else { Kind::ReplyUnknown };
        let came_back = self.connection.first(unknown).unwrap_or(NEVER);
        let ended = match (of_server, self.connection.server_end, self.connection.client_end) {
            (false, Some(SideEnd::Closed(at) | SideEnd::Left(at) | SideEnd::Ended(at, ..)), _)
            | (_, _, Some(SideEnd::Closed(at) | SideEnd::Left(at) | SideEnd::Ended(at, ..))) => at,
            _ => NEVER,
        };
        let ended = ended.min(came_back);
        let lives = &self.players.lives;
        let within =
            |end: End| matches!(end, End::Killed(at) if at + SLACK >= self.connection.opened && at <= ended + SLACK);
        let is_killed = match (of_server, self.connection.server) {
            (true, Some(server)) => within(lives[server].end),
            (true, None) => lives.iter().any(|life| life.serves && within(life.end)),
            (false, _) => within(client.end),
        };
        let is_silent = self.players.silences.iter().any(|silence| {
            let concerns = silence.player == 0 || silence.player == client.player;
            // TCP sends again what was lost at growing intervals: after an outage it may be silent for as long again.
            let more = if self.players.kind == Transport::Tcp { silence.to - silence.from } else { 0 };
            concerns && silence.from <= ended + SLACK && silence.to + more + NOTICED_WITHIN >= ended
        });
        is_killed.then_some(Excuse::Killed).or(is_silent.then_some(Excuse::Silent))
    }

    /// Count messages of unknown fate under the key of their excuse. Without an excuse that is `wrong`.
    fn excused(&mut self, count: usize, of_server: bool, keys: [&str; 2], wrong: impl Fn(usize) -> String) {
        match self.excuse(of_server) {
            _ if count == 0 => {}
            Some(excuse) => self.tally.add(keys[excuse as usize], count),
            None => self.wrong(&wrong(count)),
        }
    }

    /// The peer reported the last `unhandled` of these messages as unhandled. Returns the others.
    fn said_unhandled<'b>(&mut self, what: &str, key: &str, all: &'b [usize], unhandled: u32) -> &'b [usize] {
        let (before, dropped) = all.split_at(all.len().saturating_sub(unhandled as usize));
        self.tally.add(key, dropped.len());
        let handled = if what == "request" { &self.handled } else { &self.replied };
        if let Some(at) = dropped.iter().find(|&&at| handled[at]) {
            self.wrong(&format!("{what} {at} is said to be unhandled and was handled"));
        }
        before
    }

    /// Requests that were acknowledged, and neither replied to nor returned.
    fn without_outcome(&mut self, requests: &[usize]) {
        let Some(client) = self.client else { return self.wrong("no client has opened it") };
        match (self.connection.client_end, client.end) {
            (None, End::Killed(_)) => self.tally.add("client_killed", requests.len()),
            (None, _) => self.wrong("its client was not killed, and has not noted its end"),
            (Some(SideEnd::Left(_)), _) => self.tally.add("client_left", requests.len()),
            (Some(SideEnd::Closed(at)), end) if is_killed_soon_after(at, end) => {
                self.tally.add("client_killed", requests.len());
            }
            (Some(SideEnd::Closed(_)), _) => self.closed_before_reply(requests),
            (Some(SideEnd::Ended(_, reason, unhandled)), _) => {
                let before = self.said_unhandled("request", "unhandled", requests, unhandled);
                if requests.len() < unhandled as usize {
                    self.wrong("more are said to be unhandled than have no outcome");
                }
                if reason == ReturnReason::Closed {
                    self.closed_before_reply(before);
                } else {
                    self.lost(before);
                }
            }
        }
    }

    /// Requests without an outcome on a connection that one side closed. If they were handled, the close cost their replies.
    fn closed_before_reply(&mut self, requests: &[usize]) {
        let (handled, lost): (Vec<usize>, Vec<usize>) = requests.iter().partition(|&&at| self.handled[at]);
        let closed = if let Some(SideEnd::Closed(at)) = self.connection.client_end { Some(at) } else { None };
        let by_client = closed.is_some();
        self.tally.add(if by_client { "client_closed" } else { "server_closed" }, handled.len());
        // A server that has handled nothing of the connection does not know it, and notes only that it dropped the endpoint.
        let during = |at: &u64| *at + SLACK >= self.connection.opened && closed.is_some_and(|end| *at <= end + SLACK);
        let has_left = match self.connection.server {
            Some(_) => matches!(self.connection.server_end, Some(SideEnd::Left(_))),
            None => self.drops.iter().any(during),
        };
        if by_client && has_left {
            // The server left with unhandled requests. A client that has closed the connection is not told how many.
            self.tally.add("both_closed", lost.len());
        } else {
            self.lost(&lost);
        }
    }

    /// Nothing is known of these requests, so they need an excuse.
    fn lost(&mut self, requests: &[usize]) {
        self.excused(requests.len(), true, ["no_outcome_killed", "no_outcome_silent"], |count| {
            let (at, more) = (requests[0], count - 1);
            format!("request {at} and {more} more without outcome, and the server was neither killed nor silent")
        });
    }

    fn replies(&mut self) {
        let kinds = [Kind::Refused, Kind::ReplyNotDelivered, Kind::ReplyUnknown];
        let [refused, returned, unknown] = kinds.map(|kind| self.connection.flags(&[kind]));
        let all = 0..self.connection.sent as usize;
        for at in all.clone().filter(|&at| returned[at]) {
            if self.replied[at] {
                self.wrong(&format!("reply {at} came back as not delivered and was handled"));
            }
        }
        self.tally.add("replies_not_delivered", count(&returned));
        self.tally.add("replies_refused", count(&refused));
        self.excused(count(&unknown), false, ["replies_unknown_killed", "replies_unknown_silent"], |unknown| {
            format!("{unknown} replies of unknown fate, and the client was neither killed nor silent")
        });
        let sent = all.filter(|&at| self.handled[at] && !(refused[at] || returned[at] || unknown[at]));
        let sent: Vec<usize> = sent.collect();
        self.acknowledged(&sent);
    }

    /// Replies that did not come back to the server.
    fn acknowledged(&mut self, sent: &[usize]) {
        let Some(server) = self.connection.server.map(|at| &self.players.lives[at]) else { return };
        match self.connection.server_end {
            None if matches!(server.end, End::Killed(_)) => {}
            None => self.wrong("its server was not killed, and has not noted its end"),
            Some(SideEnd::Closed(_) | SideEnd::Left(_)) => {}
            Some(SideEnd::Ended(ended, reason, unhandled)) => {
                let noted_all = !self.connection.server_left && !is_killed_soon_after(ended, server.end);
                let before = self.said_unhandled("reply", "replies_unhandled", sent, unhandled);
                let lost: Vec<usize> = before.iter().copied().filter(|&at| !self.replied[at]).collect();
                if self.connection.closed_and_left {
                    self.tally.add("replies_dropped", lost.len());
                } else if !noted_all {
                    self.tally.add("replies_unheard", lost.len());
                } else if let (Some(at), None) = (lost.first(), self.excuse(false)) {
                    self.wrong(&format!(
                        "reply {at} did not come back and was not handled; the server noted {reason:?}"
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::players::Silence;

    /// What a process of a server (0) and a client (1) noted, and when: numbers are the first one and the count.
    type Noted = (usize, Kind, u64, [u32; 2]);

    /// The judgement of one connection between them, after the players and the server's end were set.
    fn judged(noted: &[Noted], server_end: Option<SideEnd>, drops: &[u64], set: impl FnOnce(&mut Players)) -> Tally {
        let directory = tempfile::tempdir().unwrap();
        let mut players = Players::new(Transport::Shm, 1, directory.path(), 0, false, 0.0).unwrap();
        let life = |player| Life { player, serves: player == 0, book: "".into(), end: End::Left };
        players.lives = vec![life(0), life(1)];
        set(&mut players);
        let (mut connection, name) = (Connection::default(), 1 << 32);
        for &(by, kind, time, [first, count]) in noted {
            connection.add(by, &Record { connection: name, time, kind, first, count, reason: None });
        }
        connection.server_end = server_end;
        let mut tally = Tally::default();
        judge(&players, drops, name, &connection, &mut tally);
        tally
    }

    /// The client closed the connection before it heard of the end, and left when no silence excused it any more.
    #[test]
    fn what_came_back_in_a_silence_is_excused_however_late_the_client_leaves() {
        let noted = [
            (1, Kind::Opened, 100, [0, 1]),
            (1, Kind::Sent, 100, [0, 5]),
            (0, Kind::Handled, 200, [0, 3]),
            (1, Kind::Replied, 200, [0, 3]),
            (1, Kind::Unknown, 3_000, [3, 2]),
            (1, Kind::Left, 9_000, [0, 1]),
        ];
        for (silent_until, wrong) in [(2_000, 0), (400, 1)] {
            let tally = judged(&noted, Some(SideEnd::Left(3_000)), &[], |players| {
                players.silences = vec![Silence { player: 0, from: 300, to: silent_until }];
            });
            assert_eq!(tally.get("wrong"), wrong, "silent until {silent_until}");
        }
    }

    /// The server was killed, and some of its last replies were lost: those behind them are handled at the end.
    #[test]
    fn a_gap_at_the_end_is_excused_where_frames_are_lost_and_their_sender_is_gone() {
        let noted = [
            (1, Kind::Opened, 100, [0, 1]),
            (1, Kind::Sent, 100, [0, 9]),
            (0, Kind::Handled, 100, [0, 9]),
            (1, Kind::Replied, 100, [0, 3]),
            (1, Kind::Replied, 800, [6, 3]),
            (1, Kind::Left, 900, [0, 1]),
        ];
        for (transport, end, wrong) in [
            (Transport::Udp, End::Killed(110), 0),
            (Transport::Udp, End::Lives, 1),
            (Transport::Shm, End::Killed(110), 1),
        ] {
            let tally = judged(&noted, Some(SideEnd::Closed(110)), &[], |players| {
                players.kind = transport;
                players.lives[0].end = end;
            });
            assert_eq!(tally.get("wrong"), wrong, "{transport:?}, {end:?}");
        }
    }

    /// Requests that wait in an endpoint which is dropped: the server has handled none of them, and does not know the connection.
    #[test]
    fn requests_of_a_connection_that_a_dropped_endpoint_never_saw_are_excused() {
        let noted = [(1, Kind::Opened, 100, [0, 1]), (1, Kind::Sent, 100, [0, 5]), (1, Kind::Closed, 100, [0, 1])];
        for (dropped, wrong) in [(150, 0), (900, 1)] {
            let tally = judged(&noted, None, &[dropped], |_| ());
            assert_eq!((tally.get("wrong"), tally.get("both_closed")), (wrong, 5 - 5 * wrong), "dropped at {dropped}");
        }
    }
}
