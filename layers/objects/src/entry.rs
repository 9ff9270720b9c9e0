//! An object of a space, as a process has it.

use std::sync::Arc;

use crate::ask::Caller;
use crate::command::SavedObject;
use crate::digest::Digests;
use crate::placement::{Home, Usage, Wanted};
use crate::replica::{AnyReplica, Type};
use crate::waiting::Waiting;

/// An object.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) of: &'static str,
    pub(crate) schema: u64,
    pub(crate) replica: Arc<dyn AnyReplica>,
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
    pub(crate) fn new(name: &str, known: &Type, replica: Arc<dyn AnyReplica>, length: usize) -> Entry {
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

    /// For a process that joins. Calls that wait where the object is kept were not made in the order.
    pub(crate) fn saved(&self, id: u64) -> SavedObject {
        let Entry { home, wanted, writes, schema, .. } = *self;
        SavedObject {
            id,
            name: self.name.clone(),
            of: self.of.into(),
            schema,
            is_poisoned: self.replica.is_poisoned(),
            state: self.replica.save(),
            writes,
            home,
            wanted,
            usage: self.usage.clone(),
            waiting: if home == Home::Everywhere { self.waiting.all() } else { vec![] },
        }
    }

    /// An object that another process has saved. `None`: the bytes are no value.
    pub(crate) fn of(saved: SavedObject, of: &'static str, replica: Arc<dyn AnyReplica>) -> Option<Entry> {
        let SavedObject { name, schema, is_poisoned, state, writes, home, wanted, usage, waiting, .. } = saved;
        let (waiting, digests) = (waiting.into_iter().collect(), Digests::of(state.len()));
        let (is_leaving, placers) = (false, vec![]);
        let is_value = replica.restore(&state, is_poisoned);
        let entry =
            Entry { name, of, schema, replica, waiting, writes, digests, home, wanted, is_leaving, placers, usage };
        is_value.then_some(entry)
    }
}
