//! An object of a space, as a process has it.

use std::sync::Arc;

use crate::ask::Caller;
use crate::command::{Listed, SavedObject};
use crate::digest::Digests;
use crate::placement::{Home, Usage, Wanted};
use crate::replica::{AnyReplica, Type};
use crate::waiting::Waiting;

/// An object.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) of: &'static str,
    pub(crate) schema: u64,
    /// `None`: its value has not come yet from the process that gives it.
    pub(crate) replica: Option<Arc<dyn AnyReplica>>,
    pub(crate) waiting: Waiting,
    /// Writes that have run.
    pub(crate) writes: u64,
    pub(crate) digests: Digests,
    pub(crate) home: Home,
    /// Where it is to be, until it is.
    pub(crate) wanted: Option<Wanted>,
    /// This process has given it away, and does nothing with it until all have heard of that.
    pub(crate) is_leaving: bool,
    /// Those that wait until it is where they want it.
    pub(crate) placers: Vec<Caller>,
    /// The use by which its placement is chosen.
    pub(crate) usage: Option<Usage>,
}

impl Entry {
    /// A new object, with a value of this length.
    pub(crate) fn new(name: &str, known: &Type, replica: Option<Arc<dyn AnyReplica>>, length: usize) -> Entry {
        Entry {
            name: name.into(),
            of: known.name,
            schema: known.schema,
            replica,
            waiting: Waiting::default(),
            writes: 0,
            digests: Digests::of(length),
            home: Home::Everywhere,
            wanted: None,
            is_leaving: false,
            placers: vec![],
            usage: None,
        }
    }

    /// For a process that joins: all but the value.
    pub(crate) fn listed(&self, id: u64) -> Listed {
        let Entry { home, wanted, writes, schema, .. } = *self;
        let (name, of, usage) = (self.name.clone(), self.of.into(), self.usage.clone());
        Listed { id, name, of, schema, writes, home, wanted, usage }
    }

    /// With this value. Calls that wait where the object is kept were not made in the order.
    pub(crate) fn saved(&self, id: u64, state: Vec<u8>) -> SavedObject {
        SavedObject {
            listed: self.listed(id),
            is_poisoned: self.replica.as_ref().is_some_and(|replica| replica.is_poisoned()),
            state,
            waiting: if self.home == Home::Everywhere { self.waiting.all() } else { vec![] },
        }
    }

    /// An object of another process, whose value has not come yet.
    pub(crate) fn absent(listed: Listed, known: &Type) -> Entry {
        let Listed { name, writes, home, wanted, usage, .. } = listed;
        Entry { writes, home, wanted, usage, ..Entry::new(&name, known, None, 0) }
    }

    /// An object that another process has saved. `None`: the bytes are no value.
    pub(crate) fn of(saved: SavedObject, known: &Type) -> Option<Entry> {
        let SavedObject { listed, is_poisoned, state, waiting } = saved;
        let replica = Some((known.open)(&state, is_poisoned)?);
        let (waiting, digests) = (waiting.into_iter().collect(), Digests::of(state.len()));
        Some(Entry { replica, waiting, digests, ..Entry::absent(listed, known) })
    }

    /// The same, in the memory of the one that this process had: the program points to it.
    pub(crate) fn in_place_of(self, had: Entry) -> Entry {
        let takes = |(had, new): (&Arc<dyn AnyReplica>, &Arc<dyn AnyReplica>)| had.take_from(new.clone());
        let has_taken = had.replica.as_ref().zip(self.replica.as_ref()).is_some_and(takes);
        if has_taken { Entry { replica: had.replica, ..self } } else { self }
    }

    /// Whether its value is at this process from now on.
    pub(crate) fn place(&self, me: u64) {
        if let Some(replica) = &self.replica {
            replica.place(self.home.has_copy(me));
        }
    }

    /// Count the uses of this process, if its placement follows them.
    pub(crate) fn count(&self) {
        if let Some(replica) = &self.replica {
            replica.uses().count(self.usage.is_some());
        }
    }
}
