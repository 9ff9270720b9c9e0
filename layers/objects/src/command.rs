//! What processes of a space say to each other: messages of the group, and the state of the whole space.

use am_rpc::Wire;

use crate::placement::{Home, Usage, Wanted};

/// A message of the group. Each has its place in the one order.
#[derive(Debug, PartialEq, Wire)]
pub(crate) enum Command<'a> {
    /// An object of this name, unless there is one. The call is the sender's number for it.
    Create { call: u64, new: NewObject<'a> },
    /// An object is to be elsewhere.
    Place { call: u64, object: u64, to: Wanted },
    /// The process that has kept an object gives it away.
    Moved { object: u64, given: Given<'a> },
    /// This often the sender has used an object since its last report.
    Used { object: u64, reads: u32, writes: u32 },
    /// A write.
    Write { call: u64, object: u64, operation: u16, arguments: &'a [u8] },
    /// The sender does not wait for the guard of this call any more.
    Cancel { call: u64 },
    /// After this number of writes an object has a value with this digest at the sender.
    Digest { object: u64, writes: u64, digest: u64 },
    /// These processes have left the group or crashed: their waiting writes are dropped, and what they kept is lost.
    Gone { members: Vec<u64> },
}

impl Command<'_> {
    /// The sender's call that this begins.
    pub(crate) fn call(&self) -> Option<u64> {
        match self {
            Command::Create { call, .. } | Command::Place { call, .. } | Command::Write { call, .. } => Some(*call),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Wire)]
pub(crate) struct NewObject<'a> {
    pub(crate) name: &'a str,
    /// The name of its type.
    pub(crate) of: &'a str,
    pub(crate) schema: u64,
    pub(crate) state: &'a [u8],
    pub(crate) to: Wanted,
}

/// An object that a process gives away.
#[derive(Clone, Copy, Debug, PartialEq, Wire)]
pub(crate) struct Given<'a> {
    /// The placement that ends.
    pub(crate) epoch: u64,
    pub(crate) to: Wanted,
    /// Writes that have run.
    pub(crate) writes: u64,
    pub(crate) is_poisoned: bool,
    /// `None`: it stays, because the value is too long for a message.
    pub(crate) state: Option<&'a [u8]>,
}

/// All of a space, for a process that joins.
#[derive(Debug, PartialEq, Wire)]
pub(crate) struct Snapshot {
    pub(crate) version: u32,
    /// The messages that have made it what it is.
    pub(crate) position: u64,
    /// The next object's number.
    pub(crate) next: u64,
    pub(crate) objects: Vec<SavedObject>,
}

/// The version of a [`Snapshot`], and of the parts of a space.
pub(crate) const VERSION: u32 = 3;

/// All of an object but its value.
#[derive(Debug, PartialEq, Wire)]
pub(crate) struct Listed {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) of: String,
    pub(crate) schema: u64,
    /// Writes that have run.
    pub(crate) writes: u64,
    pub(crate) home: Home,
    pub(crate) wanted: Option<Wanted>,
    pub(crate) usage: Option<Usage>,
}

#[derive(Debug, PartialEq, Wire)]
pub(crate) struct SavedObject {
    pub(crate) listed: Listed,
    pub(crate) is_poisoned: bool,
    pub(crate) state: Vec<u8>,
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
