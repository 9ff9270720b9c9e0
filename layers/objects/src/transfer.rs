//! States of a space on their way, without what the objects do with them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use am_ordered::{Event, Place};
use am_rpc::Wire;

use crate::command::{Listed, SavedObject};
use crate::inbox::Inbox;

/// A part has objects of about this many bytes in all.
pub(crate) const PART: usize = 1 << 20;
/// An object that is longer is written by another thread.
pub(crate) const LARGE: usize = 2 << 20;
/// The most bytes of commands that wait for a large object. Beyond them the process waits for the thread.
pub(crate) const MOST_WAITING: usize = 64 << 20;
/// What a command takes besides its payload.
pub(crate) const AROUND: usize = 128;

/// A part of a space, for a process that joins.
#[derive(Debug, PartialEq, Wire)]
pub(crate) enum Part {
    /// The first one.
    List {
        version: u32,
        /// The messages that have made it what it is.
        position: u64,
        next: u64,
        objects: Vec<Listed>,
    },
    Objects(Vec<SavedObject>),
}

/// What is known of states that leave and arrive.
pub(crate) struct Transfer<T> {
    /// The object that another thread writes.
    pub(crate) making: Option<Making>,
    /// The objects of another process, as far as they are here.
    pub(crate) coming: Option<Box<T>>,
    pub(crate) inbox: Arc<Inbox>,
    /// An object that is longer is written by another thread.
    pub(crate) large: usize,
}

impl<T> Transfer<T> {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Transfer<T> {
        Transfer { making: None, coming: None, inbox, large: LARGE }
    }

    /// This process goes on with another state. Returns what waits: commands are in that state, or void.
    pub(crate) fn forget(&mut self) -> VecDeque<Waits> {
        self.coming = None;
        self.making.take().map(|making| making.waiting).unwrap_or_default()
    }

    /// Whether commands may have to wait.
    pub(crate) fn is_making(&self) -> bool {
        self.making.is_some()
    }

    /// Whether another thread writes this object now.
    pub(crate) fn writes(&self, object: u64) -> bool {
        self.making.as_ref().is_some_and(|making| making.object == object && making.is_under_way())
    }
}

pub(crate) struct Making {
    pub(crate) object: u64,
    pub(crate) next: Option<Place>,
    pub(crate) work: Work,
    pub(crate) waiting: VecDeque<Waits>,
    pub(crate) bytes: usize,
}

pub(crate) enum Work {
    Thread(JoinHandle<Vec<u8>>),
    Done(Vec<u8>),
    /// It is done after this number of questions.
    #[cfg(test)]
    Later(u32, Vec<u8>),
}

/// What waits for a large object.
pub(crate) enum Waits {
    Command { number: u64, sender: u64, from: String, is_own: bool, payload: Vec<u8> },
    Event(Event),
}

impl Making {
    pub(crate) fn is_under_way(&self) -> bool {
        !matches!(self.work, Work::Done(_))
    }

    pub(crate) fn is_done(&mut self) -> bool {
        match &mut self.work {
            Work::Thread(thread) => thread.is_finished(),
            Work::Done(_) => true,
            #[cfg(test)]
            Work::Later(asks, _) => {
                *asks = asks.saturating_sub(1);
                *asks == 0
            }
        }
    }

    /// The part, once the thread has ended.
    pub(crate) fn wait(work: Work) -> Vec<u8> {
        match work {
            Work::Thread(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Work::Done(part) => part,
            #[cfg(test)]
            Work::Later(_, part) => part,
        }
    }
}
