//! Frames of groups ([`am_wire::group`]). They have no flow, and the protocol gives them no meaning: it queues them for the layer that does.

use std::collections::VecDeque;

use am_wire::{Buffer, Reason};

use crate::node::Core;

/// The frames that wait, the oldest first. Bounded by [`MAX_QUEUED`]: beyond it, arriving frames are dropped and counted.
#[derive(Debug)]
pub(crate) struct GroupFrames<B> {
    queue: VecDeque<B>,
    /// Whether a group was joined.
    is_used: bool,
}

/// Several turns' frames, so that a handler that takes long loses none.
const MAX_QUEUED: usize = 256;

impl<B> GroupFrames<B> {
    pub(crate) fn new() -> Self {
        GroupFrames { queue: VecDeque::new(), is_used: false }
    }
}

impl<B: Buffer> Core<B> {
    /// From above: the node joins a group. It may allocate.
    pub fn use_group_frames(&mut self) {
        self.groups.is_used = true;
        self.groups.queue.reserve(MAX_QUEUED);
    }

    pub(crate) fn on_group_frame(&mut self, frame: B) -> Result<(), Reason> {
        if !self.groups.is_used {
            return Err(Reason::NoGroup);
        }
        if self.groups.queue.len() < MAX_QUEUED {
            self.counters.group_frames += 1;
            self.groups.queue.push_back(frame);
        } else {
            self.counters.group_frames_dropped += 1;
        }
        Ok(())
    }

    /// Whether frames of groups wait.
    #[inline]
    pub fn has_group_frames(&self) -> bool {
        !self.groups.queue.is_empty()
    }

    /// Output: the next frame of a group. It is well-formed: [`GroupHeader::parse`](am_wire::group::GroupHeader::parse) succeeds.
    pub fn poll_group_frame(&mut self) -> Option<B> {
        self.groups.queue.pop_front()
    }
}
