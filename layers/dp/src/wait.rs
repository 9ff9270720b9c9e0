//! The loop: what arrives goes into the pools, what waits leaves, and descriptors say what can be read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use am_api::{Message, PollScope};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll as poll_descriptors};

use crate::dp::{Dp, note_sending, point_mut};
use crate::edge::Target;
use crate::inbox::{Inbox, TOO_LONG};
use crate::inboxes::Inboxes;
use crate::point::{Point, PointId};

/// The longest that an endpoint lives on after its descriptor was closed, for what it wrote.
const LINGER: Duration = Duration::from_secs(5);

/// The interval of the looks whether readable descriptors are still readable.
const RENEWAL: Duration = Duration::from_millis(100);

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// One turn: receive into the pools, send what waits, make descriptors readable. Returns how many messages and events were
    /// handled.
    pub fn poll(&mut self) -> usize {
        let handled = self.turn(PollScope::Everything);
        self.signal_arrivals(None);
        if self.owes {
            self.flush();
        }
        handled
    }

    /// A turn, without the descriptors. What it owes to senders leaves with the program's next message, or before the next turn: a
    /// program that answers what it has read sends once, and not twice.
    #[inline]
    pub(crate) fn turn(&mut self, scope: PollScope) -> usize {
        if self.owes {
            self.flush();
        }
        self.streak = 0;
        let receive = |inboxes: &mut Inboxes<M>, index, message: &Message<'_, _>| inboxes.on_message(index, message);
        let handled = self.set.receive_each(scope, &mut self.inboxes, receive);
        self.owes = handled > 0;
        if handled == 0 && self.has_ended {
            self.drop_incomplete();
        }
        if !(self.sending.is_empty() && self.old_edges.is_empty() && self.closing.is_empty()) {
            self.push_on();
        }
        handled
    }

    /// Send what is to leave.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.door.flush();
        self.owes = false;
    }

    /// Make the descriptors of endpoints readable that have become so; not that of the one that is just being read.
    #[inline]
    pub(crate) fn signal_arrivals(&mut self, reading: Option<PointId>) {
        if self.inboxes.has_news {
            self.look_at_arrivals(reading);
        }
    }

    #[cold]
    fn look_at_arrivals(&mut self, reading: Option<PointId>) {
        self.inboxes.has_news = false;
        for id in std::mem::take(&mut self.inboxes.special) {
            let Some(inbox) = self.inboxes.get_mut(id) else { continue };
            self.has_ended |= inbox.has_ended();
            for (from, words) in std::mem::take(&mut inbox.refusals) {
                let edge = point_mut(&mut self.points, id).and_then(|state| state.edge.as_mut());
                if let Some(edge) = edge.filter(|edge| edge.target == Target::Remote(from)) {
                    let [len, most] = words.map(|word| usize::try_from(word).unwrap_or(usize::MAX));
                    edge.refuse(len, most);
                    inbox.report_too_long((edge.nid, edge.dpid), len, most);
                }
            }
            self.refuse(id);
        }
        let mut readable = std::mem::take(&mut self.inboxes.readable);
        for id in readable.drain(..) {
            if let Some(inbox) = self.inboxes.get_mut(id)
                && inbox.take_arrival(Some(id) != reading)
            {
                self.watched.push(id);
            }
        }
        self.inboxes.readable = readable;
    }

    /// Tell senders that their message was too long. Those that have no room for that are told later.
    fn refuse(&mut self, id: PointId) {
        let (refused, size) = self.inboxes.take_refused(id);
        for (from, len) in refused {
            let told = self.door.try_request_vectored(from, TOO_LONG, &[len as u64, size as u64], &[]);
            if told.is_err_and(|error| error.is_temporary())
                && let Some(inbox) = self.inboxes.get_mut(id)
            {
                inbox.refused.push((from, len));
                note_sending(&mut self.sending, id);
            }
        }
    }

    /// Connections ended, and a turn has handled nothing more: what they left incomplete goes.
    #[cold]
    fn drop_incomplete(&mut self) {
        self.has_ended = false;
        self.inboxes.all().for_each(Inbox::drop_incomplete);
        for &id in self.by_dpid.values() {
            if self.inboxes.get(id).is_some_and(Inbox::is_readable) {
                self.inboxes.note_readable(id);
            }
        }
    }

    /// Long messages, refusals, redirected edges, endpoints that close.
    #[cold]
    fn push_on(&mut self) {
        for id in std::mem::take(&mut self.sending) {
            self.refuse(id);
            let Dp { door, points, sending, .. } = self;
            let Some(edge) = point_mut(points, id).and_then(|state| state.edge.as_mut()) else { continue };
            if let Target::Remote(to) = edge.target {
                edge.push(to, door);
            }
            if edge.is_sending() {
                note_sending(sending, id);
            }
        }
        let (door, mut done) = (&self.door, vec![]);
        self.old_edges.retain_mut(|(id, edge)| {
            let Target::Remote(to) = edge.target else { return false };
            edge.push(to, door);
            let is_left = !edge.is_sending() && (door.is_accepted(to) || !door.is_open(to));
            if is_left {
                done.push((*id, to));
            }
            !is_left
        });
        door.flush();
        for (id, to) in done {
            self.close_connection(id, to);
        }
        let now = Instant::now();
        let (closing, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.closing).into_iter().partition(|&(id, until)| now >= until || self.is_settled(id));
        self.closing = kept;
        closing.into_iter().for_each(|(id, _)| self.remove(id));
    }

    /// End a connection of this endpoint's.
    pub(crate) fn close_connection(&mut self, id: PointId, connection: am_api::Connection) {
        if self.point(id).is_some()
            && let Some(endpoint) = self.set.member(id.index as usize)
        {
            endpoint.close(connection);
        }
    }

    /// Look for endpoints whose descriptor was closed: a part of [`prepare_wait`](Dp::prepare_wait), for a program that does not wait.
    /// They go when what they wrote was accepted, or five seconds later.
    pub fn look_for_hang_ups(&mut self) {
        for id in self.readiness.hang_ups() {
            if let Some(inbox) = self.inboxes.get(id) {
                self.readiness.forget(inbox.signal.as_fd());
            }
            self.begin_closing(id);
        }
    }

    fn begin_closing(&mut self, id: PointId) {
        if let Some(state) = self.point_mut(id).filter(|state| !state.is_closing) {
            state.is_closing = true;
            self.closing.push((id, Instant::now() + LINGER));
        }
    }

    /// The program has closed this endpoint's descriptor by its number. What was written still leaves, for up to five seconds.
    pub fn note_closed(&mut self, point: Point) {
        self.begin_closing(point.id);
        point.forget();
    }

    /// The bytes that make descriptors readable are still there, or again.
    fn renew_signals(&mut self) {
        let inboxes = &mut self.inboxes;
        self.watched.retain(|&id| inboxes.get_mut(id).is_some_and(|inbox| inbox.signal.renew()));
    }

    /// A descriptor for a loop of the program's own, readable when there is something to do. Wait on it only after
    /// [`prepare_wait`](Dp::prepare_wait).
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }

    /// False: there is something to do, so [`poll`](Dp::poll) again. True: wait on the [descriptor](Dp::descriptor), and for no longer
    /// than [`next_deadline`](Dp::next_deadline).
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn prepare_wait(&mut self) -> io::Result<bool> {
        if self.owes {
            self.flush();
        }
        self.look_for_hang_ups();
        self.renew_signals();
        Ok(!self.has_ended && self.door.prepare_wait()?)
    }

    /// The longest wait.
    pub fn next_deadline(&self) -> Duration {
        // Acceptance makes no descriptor readable.
        let is_leaving = !(self.closing.is_empty() && self.old_edges.is_empty());
        let own = match (is_leaving, self.watched.is_empty()) {
            (true, _) => Duration::from_millis(1),
            (false, false) => RENEWAL,
            (false, true) => Duration::MAX,
        };
        self.door.next_deadline().min(own)
    }

    /// Poll, and sleep while there is nothing to do, until `wanted` returns true or the time is over. Returns whether it did.
    pub fn wait_until(&mut self, timeout: Duration, mut wanted: impl FnMut(&mut Self) -> bool) -> bool {
        let start = Instant::now();
        loop {
            if wanted(self) {
                return true;
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            if self.poll() > 0 || !self.prepare_wait().unwrap_or(true) {
                continue;
            }
            let timeout = PollTimeout::try_from(left.min(self.next_deadline()).max(Duration::from_millis(1)));
            let timeout = timeout.unwrap_or(PollTimeout::MAX);
            // A signal ends it sooner.
            _ = poll_descriptors(&mut [PollFd::new(self.descriptor(), PollFlags::POLLIN)], timeout);
        }
    }

    /// Close an endpoint when everything that it wrote has been accepted. Returns whether it was, in time.
    pub fn finish(&mut self, point: Point, timeout: Duration) -> bool {
        let is_done = self.wait_until(timeout, |dp| dp.is_accepted(&point));
        self.close(point);
        is_done
    }
}
