//! The queues of the frames of groups.

use std::collections::VecDeque;

use am_wire::HashKey;
use am_wire::group::GroupHeader;

use crate::EndpointId;

/// The groups that endpoints of this node have joined.
#[derive(Debug)]
pub(crate) struct GroupQueues<B> {
    /// The number of frames in all queues. Each turn reads it.
    pub(crate) waiting: usize,
    pub(crate) queues: Vec<GroupQueue<B>>,
}

/// The frames of a group that wait for its endpoint, the oldest first.
#[derive(Debug)]
pub(crate) struct GroupQueue<B> {
    pub(crate) group: u64,
    pub(crate) endpoint: EndpointId,
    pub(crate) key: HashKey,
    pub(crate) frames: VecDeque<(GroupHeader, B)>,
}

/// The most frames that wait in a queue: several turns' frames, so that a handler that takes long loses none.
pub(crate) const MAX_QUEUED: usize = 512;

impl<B> GroupQueues<B> {
    pub(crate) fn new() -> Self {
        GroupQueues { waiting: 0, queues: Vec::new() }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&GroupQueue<B>) -> bool) {
        self.queues.retain(keep);
        self.waiting = self.queues.iter().map(|queue| queue.frames.len()).sum();
    }
}
