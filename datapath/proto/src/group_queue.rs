//! A queue of the frames of groups.

use std::collections::VecDeque;

/// The frames that wait, the oldest first. Bounded by [`MAX_QUEUED`].
#[derive(Debug)]
pub(crate) struct GroupQueue<B> {
    queue: VecDeque<B>,
    /// Whether a group was joined.
    is_used: bool,
}

/// Several turns' frames, so that a handler that takes long loses none.
const MAX_QUEUED: usize = 256;

impl<B> GroupQueue<B> {
    pub(crate) fn new() -> Self {
        GroupQueue { queue: VecDeque::new(), is_used: false }
    }

    /// Take frames from now on. It allocates their room.
    pub(crate) fn begin(&mut self) {
        self.is_used = true;
        self.queue.reserve(MAX_QUEUED);
    }

    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// `false` if there is no room: the frame is dropped.
    pub(crate) fn push(&mut self, frame: B) -> bool {
        let has_room = self.queue.len() < MAX_QUEUED;
        if has_room {
            self.queue.push_back(frame);
        }
        has_room
    }

    pub(crate) fn pop(&mut self) -> Option<B> {
        self.queue.pop_front()
    }
}
