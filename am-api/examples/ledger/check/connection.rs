//! What both sides have noted of one connection.

use std::fmt::Write;

use am_api::ReturnReason;

use crate::book::{Kind, Record};

/// The most lines of a story: the end of it tells more.
const LINES: usize = 20;

/// How a side saw the connection end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// It closed it itself, and heard what came back.
    Closed(u64),
    /// It left, and heard nothing more.
    Left(u64),
    /// It was told: so many of its messages were acknowledged and not handled.
    Ended(u64, ReturnReason, u32),
}

#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) opened: u64,
    pub(super) sent: u32,
    pub(super) client_over: Option<Over>,
    pub(super) server_over: Option<Over>,
    /// The client closed it, and left before what had arrived was handled.
    pub(super) closed_and_left: bool,
    /// The process that has handled it, and all others that have.
    pub(super) server: Option<usize>,
    pub(super) other_server: bool,
    /// In the order in which each process noted them.
    records: Vec<(usize, Record)>,
}

impl Connection {
    /// What the process of this number has noted.
    pub(super) fn add(&mut self, by: usize, record: &Record) {
        let &Record { time, kind, first, count, reason, .. } = record;
        let is_client = (record.connection >> 32) as usize == by;
        self.records.push((by, *record));
        match kind {
            Kind::Opened => self.opened = time,
            Kind::Sent => self.sent = first + count,
            Kind::Closed => self.client_over = Some(Over::Closed(time)),
            Kind::Left | Kind::Ended => {
                self.closed_and_left |= kind == Kind::Left && matches!(self.client_over, Some(Over::Closed(_)));
                let unhandled = if is_client { first } else { count };
                let over = if is_client { &mut self.client_over } else { &mut self.server_over };
                match (kind, reason) {
                    (Kind::Ended, Some(reason)) => *over = Some(Over::Ended(time, reason, unhandled)),
                    // Of a connection that had ended the server may handle what had come before.
                    _ if !is_client && over.is_some() => {}
                    _ => *over = Some(Over::Left(time)),
                }
            }
            _ => {}
        }
        if kind == Kind::Handled {
            self.other_server |= self.server.is_some_and(|server| server != by);
            self.server = Some(by);
        }
    }

    /// First number and count of each record of this kind.
    pub(super) fn runs(&self, kind: Kind) -> impl Iterator<Item = (u32, u32)> {
        let records = self.records.iter().map(|(_, record)| record);
        records.filter(move |record| record.kind == kind).map(|record| (record.first, record.count))
    }

    /// Whether this happened, by number.
    pub(super) fn flags(&self, kind: Kind) -> Vec<bool> {
        let mut flags = vec![false; self.sent as usize];
        for (first, count) in self.runs(kind) {
            let range = first as usize..(first as usize).saturating_add(count as usize).min(flags.len());
            flags.get_mut(range).into_iter().for_each(|flags| flags.fill(true));
        }
        flags
    }

    /// What is known, for people.
    pub(super) fn story(&self) -> String {
        let mut story = String::new();
        let skipped = self.records.len().saturating_sub(LINES);
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
