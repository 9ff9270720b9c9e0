//! What a process has seen, in a file. Each event is handed to the kernel before anything else happens, so that `SIGKILL`
//! loses none. (A mapping would do the same with fewer system calls, but takes `unsafe`.)
//!
//! ```text
//!   total  u64        requests so far, for the line of progress
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
use nix::time::{ClockId, clock_gettime};

/// A record; it never lies on two pages, so that it is written whole or not at all.
const RECORD: u64 = 32;
const COUNT_AT: u64 = 24;

/// What happened to a request, a reply or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

const KINDS: [Kind; 13] = [
    Kind::Opened,
    Kind::Sent,
    Kind::Replied,
    Kind::NotDelivered,
    Kind::Unknown,
    Kind::Closed,
    Kind::Left,
    Kind::Ended,
    Kind::Handled,
    Kind::Refused,
    Kind::ReplyNotDelivered,
    Kind::ReplyUnknown,
    Kind::Spoilt,
];

const REASONS: [ReturnReason; 3] = [ReturnReason::Closed, ReturnReason::Restarted, ReturnReason::Unreachable];

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

/// Milliseconds, by a clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has this clock");
    time.tv_sec() as u64 * 1000 + time.tv_nsec() as u64 / 1_000_000
}

/// The last record of a kind, where it can be continued.
#[derive(Clone, Copy, Debug)]
struct Run {
    at: u64,
    first: u32,
    count: u32,
}

pub(crate) struct Book {
    file: File,
    end: u64,
    total: u64,
    runs: HashMap<u64, [Option<Run>; KINDS.len()]>,
}

impl Book {
    pub(crate) fn create(path: &Path) -> io::Result<Book> {
        let file = File::create_new(path)?;
        file.write_all_at(&[0; RECORD as usize], 0)?;
        Ok(Book { file, end: RECORD, total: 0, runs: HashMap::new() })
    }

    /// This happened to this number of a connection.
    pub(crate) fn note(&mut self, connection: u64, kind: Kind, number: u32) {
        self.because(connection, kind, number, None);
    }

    /// The same, for this reason.
    pub(crate) fn because(&mut self, connection: u64, kind: Kind, number: u32, reason: Option<ReturnReason>) {
        let run = self.runs.entry(connection).or_default()[kind as usize];
        match run {
            Some(run) if run.first.wrapping_add(run.count) == number => self.extend(connection, kind, run.count + 1),
            _ => self.append(connection, kind, [number, 1], reason),
        }
    }

    /// Numbers up to this one are about to be sent. It may be taken back.
    pub(crate) fn sends(&mut self, connection: u64, before: u32) {
        match self.runs.entry(connection).or_default()[Kind::Sent as usize] {
            Some(_) => self.extend(connection, Kind::Sent, before),
            None => self.append(connection, Kind::Sent, [0, before], None),
        }
    }

    /// The connection has ended, and so many requests and replies of this side were acknowledged and not handled.
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

    fn extend(&mut self, connection: u64, kind: Kind, count: u32) {
        let run = self.runs.get_mut(&connection).and_then(|runs| runs[kind as usize].as_mut()).expect("it was found");
        run.count = count;
        let at = run.at;
        self.write(&count.to_le_bytes(), at + COUNT_AT);
    }

    fn append(&mut self, connection: u64, kind: Kind, [first, count]: [u32; 2], reason: Option<ReturnReason>) {
        let at = self.end;
        let mut bytes = [0; RECORD as usize];
        bytes[..8].copy_from_slice(&connection.to_le_bytes());
        bytes[8..16].copy_from_slice(&now().to_le_bytes());
        bytes[16..20].copy_from_slice(&(kind as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&first.to_le_bytes());
        bytes[24..28].copy_from_slice(&count.to_le_bytes());
        let reason = reason.and_then(|reason| REASONS.iter().position(|&other| other == reason));
        bytes[28..].copy_from_slice(&reason.map_or(u32::MAX, |at| at as u32).to_le_bytes());
        self.write(&bytes, at);
        self.end += RECORD;
        self.runs.entry(connection).or_default()[kind as usize] = Some(Run { at, first, count });
    }

    fn write(&self, bytes: &[u8], at: u64) {
        self.file.write_all_at(bytes, at).unwrap_or_else(|error| panic!("the ledger cannot be written: {error}"));
    }
}

/// The requests that a book counts so far; 0 of one that is not there yet.
pub(crate) fn total(path: &Path) -> u64 {
    let mut bytes = [0; 8];
    File::open(path).and_then(|file| file.read_exact_at(&mut bytes, 0)).map_or(0, |()| u64::from_le_bytes(bytes))
}

/// All that a process has noted, in its order; nothing of one that was killed before it began.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Record>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        read => read?,
    };
    let long = |at: &[u8]| at.try_into().map_or(0, u64::from_le_bytes);
    let short = |at: &[u8]| at.try_into().map_or(0, u32::from_le_bytes);
    let record = |bytes: &[u8]| Record {
        connection: long(&bytes[..8]),
        time: long(&bytes[8..16]),
        kind: KINDS[short(&bytes[16..20]) as usize],
        first: short(&bytes[20..24]),
        count: short(&bytes[24..28]),
        reason: REASONS.get(short(&bytes[28..]) as usize).copied(),
    };
    Ok(bytes.chunks_exact(RECORD as usize).skip(1).map(record).collect())
}
