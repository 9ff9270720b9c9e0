//! Frames of groups ([`am_wire::group`]). They have no flow, and the protocol gives them no meaning: it queues them for the endpoints that
//! joined the groups.

use std::collections::VecDeque;

use am_wire::group::GroupHeader;
use am_wire::{Buffer, HashKey, Reason};

use crate::EndpointId;
use crate::group_queue::{GroupQueue, GroupQueues, MAX_QUEUED};
use crate::node::Core;

impl<B: Buffer> Core<B> {
    /// From above: this endpoint joins a group, and its frames wait for the endpoint from now on. `false` if an endpoint has joined it.
    pub fn join_group(&mut self, group: u64, endpoint: EndpointId) -> bool {
        let queues = &mut self.endpoints.groups.queues;
        let is_new = queues.iter().all(|queue| queue.group != group);
        if is_new {
            let key = self.config.key.as_ref().map_or(HashKey::default(), |key| key.group_key(group));
            queues.push(GroupQueue { group, endpoint, key, frames: VecDeque::with_capacity(MAX_QUEUED) });
        }
        is_new
    }

    /// From above: the group is left. Frames of it that wait are dropped.
    pub fn leave_group(&mut self, group: u64) {
        self.endpoints.groups.retain(|queue| queue.group != group);
    }

    pub(crate) fn on_group_frame(&mut self, frame: B) -> Result<(), Reason> {
        let (header, payload) = GroupHeader::parse(frame.bytes())?;
        let GroupQueues { waiting, queues } = &mut self.endpoints.groups;
        let queue = queues.iter_mut().find(|queue| queue.group == header.group).ok_or(Reason::NoGroup)?;
        if !header.has_signed(queue.key, payload) {
            self.counters.group_frames_forged += 1;
        } else if queue.frames.len() < MAX_QUEUED {
            queue.frames.push_back((header, frame));
            *waiting += 1;
            self.counters.group_frames += 1;
        } else {
            self.counters.group_frames_dropped += 1;
        }
        Ok(())
    }

    /// Getter: the key of a group that an endpoint has joined. Without a segment key it is zeros.
    pub fn group_key(&self, group: u64) -> HashKey {
        let queue = self.endpoints.groups.queues.iter().find(|queue| queue.group == group);
        queue.map_or(HashKey::default(), |queue| queue.key)
    }

    /// Getter: whether frames of groups wait.
    #[inline]
    pub fn has_group_frames(&self) -> bool {
        self.endpoints.groups.waiting > 0
    }

    /// Getter: whether frames of groups wait for this endpoint.
    pub fn has_group_frames_of(&self, endpoint: EndpointId) -> bool {
        self.has_group_frames()
            && self.endpoints.groups.queues.iter().any(|queue| queue.endpoint == endpoint && !queue.frames.is_empty())
    }

    /// Output: the next frame of a group that this endpoint has joined.
    pub fn poll_group_frame(&mut self, endpoint: EndpointId) -> Option<(GroupHeader, B)> {
        let GroupQueues { waiting, queues } = &mut self.endpoints.groups;
        let of_endpoint = queues.iter_mut().filter(|queue| queue.endpoint == endpoint);
        let next = of_endpoint.filter_map(|queue| queue.frames.pop_front()).next()?;
        *waiting -= 1;
        Some(next)
    }
}
