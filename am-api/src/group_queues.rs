//! Frames of groups, queued until the endpoints that joined them are polled.

use std::collections::VecDeque;

use am_proto::EndpointId;
use am_ring::Frame;
use am_wire::Buffer;
use am_wire::group::GroupHeader;

/// The groups of a node, and the frames of each that wait for their endpoint to be polled.
#[derive(Debug, Default)]
pub(crate) struct GroupQueues {
    queues: Vec<GroupQueue>,
    /// Frames for which a queue had no room, or which arrived after the group was left.
    pub(crate) dropped: u64,
}

#[derive(Debug)]
struct GroupQueue {
    group: u64,
    endpoint: EndpointId,
    frames: VecDeque<(GroupHeader, Frame)>,
}

/// The most frames that wait in a queue.
const MAX_QUEUED: usize = 256;

impl GroupQueues {
    pub(crate) fn contains(&self, group: u64) -> bool {
        self.queues.iter().any(|queue| queue.group == group)
    }

    /// The endpoint has joined the group, which is not contained.
    pub(crate) fn add(&mut self, group: u64, endpoint: EndpointId) {
        self.queues.push(GroupQueue { group, endpoint, frames: VecDeque::with_capacity(MAX_QUEUED) });
    }

    pub(crate) fn remove(&mut self, group: u64) {
        self.queues.retain(|queue| queue.group != group);
    }

    /// The endpoint is gone. Frames of its groups are dropped from now on.
    pub(crate) fn remove_of(&mut self, endpoint: EndpointId) {
        self.queues.retain(|queue| queue.endpoint != endpoint);
    }

    /// The next frame for this endpoint.
    pub(crate) fn pop(&mut self, endpoint: EndpointId) -> Option<(GroupHeader, Frame)> {
        self.queues.iter_mut().filter(|queue| queue.endpoint == endpoint).find_map(|queue| queue.frames.pop_front())
    }

    pub(crate) fn put(&mut self, frame: Frame) {
        let header = GroupHeader::parse(frame.bytes()).ok().map(|(header, _)| header);
        let queue = header.and_then(|header| self.queues.iter_mut().find(|queue| queue.group == header.group));
        match header.zip(queue) {
            Some((header, queue)) if queue.frames.len() < MAX_QUEUED => queue.frames.push_back((header, frame)),
            _ => self.dropped += 1,
        }
    }

    /// Whether no frame waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.frames.is_empty())
    }

    /// Whether a frame waits for this endpoint.
    pub(crate) fn has(&self, endpoint: EndpointId) -> bool {
        self.queues.iter().any(|queue| queue.endpoint == endpoint && !queue.frames.is_empty())
    }
}
