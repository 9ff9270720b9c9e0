//! What the near side of a turn gets, and what it gives back.

use am_measure::{Amount, Progress, Watch};

use crate::load::Sample;
use crate::work::Work;

/// The names of the nodes.
pub(crate) const NAMES: [&str; 2] = ["alpha", "beta"];

/// What a turn has measured.
pub(crate) type Given = Vec<(Work, Sample)>;

/// What the near side of a turn has to know.
pub(crate) struct Near<'a> {
    pub(crate) work: Vec<Work>,
    pub(crate) amount: Amount,
    pub(crate) progress: &'a Progress,
    /// Says that the far side has ended, too.
    pub(crate) watch: &'a Watch,
}

impl Near<'_> {
    pub(crate) fn announce(&self, work: &Work) {
        self.progress.say(&format!("{} by {}", work.name(), work.stack.name()));
    }
}
