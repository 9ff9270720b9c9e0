//! What a process has seen, in a file. Each event is handed to the kernel before anything else happens, so that `SIGKILL`
//! loses none. (A mapping would do the same with fewer system calls, but takes `unsafe`.)
//!
//! ```text
//!   total  u64        requests so far, for the line of progress
//!   lost   u64        frames that this process has lost on purpose
//!   record 32 bytes   connection u64 | time u64 | kind u32 | first u32 | count u32 | reason u32
//! ```
//!
//! Events of one kind whose numbers follow each other share a record: what is in order is short, and what is not is seen.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use am_api::ReturnReason;
use clap::ValueEnum;
use nix::time::{ClockId, clock_gettime};

/// Bytes of a record; it never lies on two pages, so that it is written whole or not at all.
const RECORD: usize = 32;

/// What happened to a request, a reply or a connection. A file has the place in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Kind {
    /// At the client: the connection is open;
    Opened,
    /// requests are about to be sent;
    Sent,
    /// a reply was handled;
    Replied,
    /// a request came back;
    NotDelivered,
    Unknown,
    /// this side closed the connection, and goes on;
    Closed,
    /// this side dropped its node or endpoint, and hears nothing more of the connection.
    Left,
    /// The connection ended otherwise: numbers are those of [`Book::ended`].
    Ended,
    /// At the server: a request was handled;
    Handled,
    /// its reply could not be sent, because the connection was closed;
    Refused,
    /// its reply came back;
    ReplyNotDelivered,
    ReplyUnknown,
    /// On either side: the content was not as it was sent.
    Spoilt,
}

const REASONS: [ReturnReason; 7] = [
    ReturnReason::Closed,
    ReturnReason::Restarted,
    ReturnReason::Unreachable,
    ReturnReason::NoHandler,
    ReturnReason::Tag,
    ReturnReason::NotPolling,
    ReturnReason::NameTaken,
];

/// Stands for a connection where a process drops its endpoint: what waits there is of connections that it may not know.
pub(crate) const ENDPOINT: u64 = u64::MAX;

/// Numbers `first`, `first + 1`, ... of one connection to which the same happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) connection: u64,
    /// Of the first of them.
    pub(crate) time: u64,
    pub(crate) kind: Kind,
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Why: of what came back the first, and of ends.
    pub(crate) reason: Option<ReturnReason>,
}

impl Record {
    fn to_bytes(self) -> [u8; RECORD] {
        let reason = REASONS.iter().position(|&reason| self.reason == Some(reason)).map_or(u32::MAX, |at| at as u32);
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words = [self.connection, self.time, pair(self.kind as u32, self.first), pair(self.count, reason)];
        let mut bytes = [0; RECORD];
        bytes.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        bytes
    }

    fn parse(bytes: &[u8]) -> Record {
        let word = |at: usize| bytes[8 * at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let [kind, first, count, reason] = [word(2), word(2) >> 32, word(3), word(3) >> 32].map(|word| word as u32);
        let (kind, reason) = (Kind::value_variants()[kind as usize], REASONS.get(reason as usize).copied());
        Record { connection: word(0), time: word(1), kind, first, count, reason }
    }
}

/// Milliseconds, by a clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has this clock");
    time.tv_sec() as u64 * 1000 + time.tv_nsec() as u64 / 1_000_000
}

pub(crate) struct Book {
    file: File,
    end: u64,
    total: u64,
    /// The last record of each kind, and its place in the file.
    last: HashMap<(u64, Kind), (u64, Record)>,
}

impl Book {
    pub(crate) fn create(path: &Path) -> io::Result<Book> {
        let file = File::create_new(path)?;
        file.write_all_at(&[0; RECORD], 0)?;
        Ok(Book { file, end: RECORD as u64, total: 0, last: HashMap::new() })
    }

    /// This happened to this number of a connection.
    pub(crate) fn note(&mut self, connection: u64, kind: Kind, number: u32) {
        self.because(connection, kind, number, None);
    }

    /// The same, for this reason.
    pub(crate) fn because(&mut self, connection: u64, kind: Kind, number: u32, reason: Option<ReturnReason>) {
        match self.last.get(&(connection, kind)) {
            Some((at, run)) if run.first.wrapping_add(run.count) == number => {
                self.put(*at, Record { count: run.count + 1, ..*run });
            }
            _ => self.append(connection, kind, [number, 1], reason),
        }
    }

    /// Numbers up to this one are about to be sent. It may be taken back.
    pub(crate) fn sends(&mut self, connection: u64, before: u32) {
        match self.last.get(&(connection, Kind::Sent)) {
            Some((at, run)) => self.put(*at, Record { count: before, ..*run }),
            None => self.append(connection, Kind::Sent, [0, before], None),
        }
    }

    /// The connection has ended. With the numbers of requests and replies of this side that were acknowledged and not handled.
    pub(crate) fn ended(&mut self, connection: u64, reason: ReturnReason, unhandled: [u32; 2]) {
        self.append(connection, Kind::Ended, unhandled, Some(reason));
    }

    /// So many more requests.
    pub(crate) fn add(&mut self, requests: u64) {
        self.set(self.total + requests);
    }

    /// So many in all.
    pub(crate) fn set(&mut self, total: u64) {
        self.total = total;
        self.write(&total.to_le_bytes(), 0);
    }

    /// This many frames were lost on purpose, in all.
    pub(crate) fn lost(&self, frames: u64) {
        self.write(&frames.to_le_bytes(), 8);
    }

    fn append(&mut self, connection: u64, kind: Kind, [first, count]: [u32; 2], reason: Option<ReturnReason>) {
        self.put(self.end, Record { connection, time: now(), kind, first, count, reason });
        self.end += RECORD as u64;
    }

    fn put(&mut self, at: u64, record: Record) {
        self.write(&record.to_bytes(), at);
        self.last.insert((record.connection, record.kind), (at, record));
    }

    fn write(&self, bytes: &[u8], at: u64) {
        self.file.write_all_at(bytes, at).unwrap_or_else(|error| panic!("the ledger cannot be written: {error}"));
    }
}

/// The requests that a book counts so far; 0 of one that is not there yet.
pub(crate) fn total(path: &Path) -> u64 {
    count(path, 0)
}

/// The frames that its process has lost on purpose, as far as it has noted them.
pub(crate) fn lost(path: &Path) -> u64 {
    count(path, 8)
}

fn count(path: &Path, at: u64) -> u64 {
    let mut bytes = [0; 8];
    File::open(path).and_then(|file| file.read_exact_at(&mut bytes, at)).map_or(0, |()| u64::from_le_bytes(bytes))
}

/// All that a process has noted, in its order; nothing of one that was killed before it began.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Record>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        bytes => Ok(bytes?.chunks_exact(RECORD).skip(1).map(Record::parse).collect()),
    }
}
