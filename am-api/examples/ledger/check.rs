//! Compares the books of both sides: all records of a connection together, and the counts of all connections.

use std::collections::HashMap;
use std::fmt::Write;
use std::io;

use am_api::ReturnReason;

use crate::book::{self, Kind, Record};
use crate::judge::judge;
use crate::players::Players;

/// The most lines of a story. Earlier ones are left out.
const MAX_STORY_LINES: usize = 20;
/// The most connections whose stories are told for each kind of error.
const MAX_TOLD: usize = 2;

/// Read all books, and judge each connection.
pub(crate) fn check(players: &Players, tally: &mut Tally) -> io::Result<()> {
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    for (at, life) in players.lives.iter().enumerate() {
        for record in book::read(&life.book)? {
            connections.entry(record.connection).or_default().add(at, &record);
        }
    }
    let mut names: Vec<u64> = connections.keys().copied().collect();
    names.sort_unstable();
    names.into_iter().for_each(|name| judge(players, name, &connections[&name], tally));
    Ok(())
}

/// How a side saw the connection end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideEnd {
    /// It closed the connection, and noted what came back.
    Closed(u64),
    /// It dropped its node or endpoint, and noted nothing more.
    Left(u64),
    /// Its node reported the end: so many of its messages were acknowledged and not handled.
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

/// Everything that is counted: key and text.
pub(crate) const ROWS: [(&str, &str); 36] = [
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

    /// Count an error of this connection. Tell its story, unless enough of this kind are told.
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
