//! Reading messages in place, and releasing them.

use std::ops::Range;

use am_api::PollScope;

use crate::ReadError;
use crate::dp::Dp;
use crate::inbox::Inbox;
use crate::point::{Point, PointId};

/// The place of a message in its endpoint's pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(Range<usize>);

impl Place {
    /// The first byte's offset in the pool.
    pub fn start(&self) -> usize {
        self.0.start
    }

    /// Its length.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Always `false`, because a message has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// The next message, in the order of arrival. `None` while there is none. This never waits. The message stays in its place until
    /// [`fsync`](Dp::fsync) releases it. Timers, such as that of a retransmission, are checked by every eighth read in a row that finds
    /// nothing, and by [`poll`](Dp::poll).
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub fn read(&mut self, point: &Point) -> Result<Option<Place>, ReadError> {
        let read = |inbox: &mut Inbox<M>| inbox.pool.read().map(Place);
        self.read_by(point, read)
    }

    /// The UNIX call: copy the next message into `buffer`, and release it. If the message is longer, the rest is dropped, as for a datagram.
    /// Returns the message's length.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read_into(&mut self, point: &Point, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let had_waiting = self.inboxes.get(point.id).is_some_and(Inbox::has_waiting);
        let read = self.read_by(point, |inbox| {
            let mut whole = 0;
            let copy = |message: &[u8]| {
                whole = message.len();
                let len = whole.min(buffer.len());
                buffer[..len].copy_from_slice(&message[..len]);
            };
            inbox.take_with(copy).then_some(whole)
        });
        if had_waiting {
            self.on_room(point.id);
        }
        read
    }

    #[inline]
    fn read_by<T>(
        &mut self,
        point: &Point,
        mut read: impl FnMut(&mut Inbox<M>) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let mut inbox = self.inboxes.get_mut(point.id).ok_or(ReadError::Closed)?;
        let mut found = read(inbox);
        if found.is_none() {
            // What arrives for this endpoint now is read at once: its descriptor need not say so.
            inbox.is_listed = true;
            let is_idle = self.turn(PollScope::of_idle_turn(self.idle_reads)) == 0;
            self.idle_reads = if is_idle { self.idle_reads.wrapping_add(1) } else { 0 };
            self.signal_arrivals(Some(point.id));
            inbox = self.inboxes.get_mut(point.id).ok_or(ReadError::Closed)?;
            inbox.is_listed = false;
            found = read(inbox);
            if found.is_none() {
                return self.read_nothing(point).map_or(Ok(None), Err);
            }
        }
        if inbox.settle_signal() {
            self.inboxes.note_readable(point.id);
        }
        Ok(found)
    }

    /// There is no message. Returns what there is to report: the end of an edge, or a message that was too long.
    fn read_nothing(&mut self, point: &Point) -> Option<ReadError> {
        let inbox = self.inboxes.get_mut(point.id)?;
        let report = if inbox.has_report() { inbox.reports.pop_front() } else { None };
        if inbox.settle_signal() {
            self.inboxes.note_readable(point.id);
        }
        if let Some(ReadError::TooLong { .. }) = report
            && let Some(edge) = self.point_mut(point.id).and_then(|state| state.edge.as_mut())
        {
            edge.forget_failure();
        }
        report
    }

    /// The bytes of a message that was read and not given back yet.
    pub fn bytes(&self, point: &Point, place: &Place) -> Option<&[u8]> {
        self.memory(point)?.as_ref().get(place.0.clone())
    }

    /// Release the oldest `count` messages that were read. Returns false, and releases none, if fewer were read.
    #[inline]
    pub fn fsync(&mut self, point: &Point, count: usize) -> bool {
        let Some(inbox) = self.inboxes.get_mut(point.id) else { return false };
        if inbox.has_waiting() {
            let is_done = inbox.free(count);
            self.on_room(point.id);
            return is_done;
        }
        inbox.pool.free(count)
    }

    /// Messages that waited for room may be in the pool now, and the program may sleep next.
    #[cold]
    fn on_room(&mut self, id: PointId) {
        self.inboxes.note_special(id);
        if self.inboxes.get(id).is_some_and(Inbox::is_readable) {
            self.inboxes.note_readable(id);
        }
        self.signal_arrivals(None);
    }
}
