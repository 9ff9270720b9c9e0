//! What processes of a space say to each other: messages of the group, and the state of the whole space.

use am_rpc::Wire;

/// A message of the group. Each has its place in the one order.
#[derive(Debug, PartialEq, Wire)]
pub(crate) enum Command<'a> {
    /// An object of this name, unless there is one.
    Create {
        /// The sender's number for the call.
        call: u64,
        name: &'a str,
        /// The name of its type.
        of: &'a str,
        schema: u64,
        state: &'a [u8],
    },
    /// A write.
    Write { call: u64, object: u64, operation: u16, arguments: &'a [u8] },
    /// The sender does not wait for the guard of this call any more.
    Cancel { call: u64 },
    /// After this number of writes an object has a value with this digest at the sender.
    Digest { object: u64, writes: u64, digest: u64 },
    /// These processes have left the group or crashed: their waiting writes are dropped.
    Gone { members: Vec<u64> },
}

/// All of a space, for a process that joins.
#[derive(Debug, PartialEq, Wire)]
pub(crate) struct Snapshot {
    pub(crate) version: u32,
    /// The next object's number.
    pub(crate) next: u64,
    pub(crate) objects: Vec<SavedObject>,
}

/// The version of a [`Snapshot`].
pub(crate) const VERSION: u32 = 1;

#[derive(Debug, PartialEq, Wire)]
pub(crate) struct SavedObject {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) of: String,
    pub(crate) schema: u64,
    pub(crate) is_poisoned: bool,
    pub(crate) state: Vec<u8>,
    /// Writes that have run.
    pub(crate) writes: u64,
    pub(crate) waiting: Vec<SavedCall>,
}

/// A write whose guard has not held yet, in the order in which they came.
#[derive(Clone, Debug, PartialEq, Wire)]
pub(crate) struct SavedCall {
    pub(crate) caller: u64,
    pub(crate) call: u64,
    pub(crate) operation: u16,
    pub(crate) arguments: Vec<u8>,
}
