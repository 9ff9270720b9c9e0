//! The tables by which the program stamps group frames.

use std::ops::Deref;
use std::sync::Arc;

use am_wire::group::JoinedGroups;
use am_wire::stamp::Stamps;

use crate::mapped::Mapped;

/// One for each group that a node can join.
pub(crate) type StampTables = Mapped<[Stamps; JoinedGroups::MAX]>;

/// The table of a group, in the memory by which the program stamps its frames. Opening an epoch starts the stamping. The memory outlives the program.
#[derive(Clone, Debug)]
pub struct ProgramStamps {
    pub(crate) tables: Arc<StampTables>,
    pub(crate) place: usize,
}

impl Deref for ProgramStamps {
    type Target = Stamps;

    fn deref(&self) -> &Stamps {
        &self.tables[self.place]
    }
}
