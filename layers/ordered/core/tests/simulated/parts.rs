//! The state of a process in a run: a column of a table for every few messages, which travels as one part.

use std::collections::VecDeque;

use am_ordered_core::{MemberId, Place, Time};
use bytes::Bytes;

use crate::checks::{self, Key};

const COLUMNS: usize = 6;

/// For each column the digest of its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns([u64; COLUMNS]);

impl Columns {
    pub(crate) fn add(&mut self, key: Key) {
        let column = &mut self.0[column_of(key)];
        *column = checks::digest(*column, key);
    }

    pub(crate) fn whole(&self) -> Bytes {
        self.0.iter().flat_map(|column| column.to_be_bytes()).collect::<Vec<u8>>().into()
    }

    pub(crate) fn from_whole(state: &[u8]) -> Columns {
        let columns = state.chunks(8).map(|column| u64::from_be_bytes(column.try_into().expect("a digest")));
        Columns(columns.collect::<Vec<_>>().try_into().expect("all columns"))
    }

    /// The part that begins there, and where the next one does.
    pub(crate) fn part(&self, place: Place) -> (Bytes, Option<Place>) {
        let (column, next) = (self.0[place.next as usize], place.next + 1);
        let part = Bytes::copy_from_slice(&[place.next.to_be_bytes(), column.to_be_bytes()].concat());
        (part, (next < COLUMNS as u64).then_some(Place { next, end: 0 }))
    }
}

fn column_of((sender, count): Key) -> usize {
    (sender.0 + count) as usize % COLUMNS
}

/// What has arrived of another process's columns.
#[derive(Debug, Default)]
pub(crate) struct Coming([Option<u64>; COLUMNS]);

impl Coming {
    pub(crate) fn on_part(&mut self, part: &[u8]) {
        let (column, digest) = part.split_at(8);
        let column = u64::from_be_bytes(column.try_into().expect("a number")) as usize;
        self.0[column] = Some(u64::from_be_bytes(digest.try_into().expect("a digest")));
    }

    /// A column that is not here yet has the message already when it comes.
    pub(crate) fn on_message(&mut self, key: Key) {
        if let Some(column) = &mut self.0[column_of(key)] {
            *column = checks::digest(*column, key);
        }
    }

    /// The columns, if all are here.
    pub(crate) fn whole(self) -> Option<Columns> {
        let columns: Option<Vec<u64>> = self.0.into_iter().collect();
        Some(Columns(columns?.try_into().expect("all columns")))
    }
}

/// A part that the program gives later than it was asked for.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) at: Time,
    pub(crate) joiner: MemberId,
    pub(crate) part: Bytes,
    pub(crate) next: Option<Place>,
}

/// The parts that a process gives later, in the order in which they were asked for.
pub(crate) type AllDue = VecDeque<Due>;
