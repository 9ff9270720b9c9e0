//! Frames of groups ([`am_wire::group`]). They have no flow, and the protocol gives them no meaning: it queues them for the layer that does.

use am_wire::{Buffer, Reason};

use crate::node::Core;

impl<B: Buffer> Core<B> {
    /// From above: the node joins a group. It may allocate.
    pub fn use_group_frames(&mut self) {
        self.groups.begin();
    }

    pub(crate) fn on_group_frame(&mut self, frame: B) -> Result<(), Reason> {
        if !self.groups.is_used() {
            return Err(Reason::NoGroup);
        }
        let counters = &mut self.counters;
        *(if self.groups.push(frame) { &mut counters.group_frames } else { &mut counters.group_frames_dropped }) += 1;
        Ok(())
    }

    /// Whether frames of groups wait.
    #[inline]
    pub fn has_group_frames(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Output: the next frame of a group. It is well-formed: [`GroupHeader::parse`](am_wire::group::GroupHeader::parse) succeeds.
    pub fn poll_group_frame(&mut self) -> Option<B> {
        self.groups.pop()
    }
}
