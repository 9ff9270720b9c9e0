//! The loop: receive messages into the pools, send waiting ones, and make the descriptors of readable endpoints readable.

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

/// How long an endpoint stays after its descriptor was closed, so that its messages are accepted.
const LINGER: Duration = Duration::from_secs(5);

/// How often to check that readable descriptors are still readable.
const RENEWAL: Duration = Duration::from_millis(100);

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// One turn: receive messages into the pools, send waiting ones, make descriptors readable. Returns how many messages and events were
    /// handled.
    pub fn poll(&mut self) -> usize {
        let handled = self.turn(PollScope::Everything);
        self.signal_arrivals(None);
        if self.needs_flush {
            self.flush();
        }
        handled
    }

    /// A turn, without the descriptors. Its acknowledgements and credits leave with the program's next message, or before the next turn,
    /// so a program that answers each message rings one doorbell and not two.
    #[inline]
    pub(crate) fn turn(&mut self, scope: PollScope) -> usize {
        if self.needs_flush {
            self.flush();
        }
        self.streak = 0;
        let receive = |inboxes: &mut Inboxes<M>, index, message: &Message<'_, _>| inboxes.on_message(index, message);
        let handled = self.set.receive_each(scope, &mut self.inboxes, receive);
        self.needs_flush = handled > 0;
        if handled == 0 && self.has_ended {
            self.drop_incomplete();
        }
        if !(self.sending.is_empty() && self.old_edges.is_empty() && self.closing.is_empty()) {
            self.continue_work();
        }
        handled
    }

    /// Send waiting frames.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.sender.flush();
        self.needs_flush = false;
    }

    /// Make the descriptors of readable endpoints readable, except that of the endpoint that the program is reading.
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
            for (from, words) in std::mem::take(&mut inbox.refusals_received) {
                let edge = point_mut(&mut self.points, id).and_then(|state| state.edge.as_mut());
                if let Some(edge) = edge.filter(|edge| edge.target == Target::Remote(from)) {
                    let [len, most] = words.map(|word| usize::try_from(word).unwrap_or(usize::MAX));
                    edge.on_refused(len, most);
                    inbox.report_too_long((edge.nid, edge.dpid), len, most);
                }
            }
            self.send_refusals(id);
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

    /// Notify senders that their message was too long. Senders without room are notified later.
    fn send_refusals(&mut self, id: PointId) {
        let (refusals, size) = self.inboxes.take_refusals_to_send(id);
        for (from, len) in refusals {
            let sent = self.sender.try_request_vectored(from, TOO_LONG, &[len as u64, size as u64], &[]);
            if sent.is_err_and(|error| error.is_temporary())
                && let Some(inbox) = self.inboxes.get_mut(id)
            {
                inbox.refusals_to_send.push((from, len));
                note_sending(&mut self.sending, id);
            }
        }
    }

    /// Connections ended, and a turn has handled nothing more: drop their incomplete messages.
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

    /// Continue with long messages, refusals, redirected edges and closing endpoints.
    #[cold]
    fn continue_work(&mut self) {
        for id in std::mem::take(&mut self.sending) {
            self.send_refusals(id);
            let Dp { sender, points, sending, .. } = self;
            let Some(edge) = point_mut(points, id).and_then(|state| state.edge.as_mut()) else { continue };
            if let Target::Remote(to) = edge.target {
                edge.push(to, sender);
            }
            if edge.is_sending() {
                note_sending(sending, id);
            }
        }
        let (sender, mut done) = (&self.sender, vec![]);
        self.old_edges.retain_mut(|(id, edge)| {
            let Target::Remote(to) = edge.target else { return false };
            edge.push(to, sender);
            let is_left = !edge.is_sending() && (sender.is_accepted(to) || !sender.is_open(to));
            if is_left {
                done.push((*id, to));
            }
            !is_left
        });
        sender.flush();
        for (id, to) in done {
            self.close_connection(id, to);
        }
        let now = Instant::now();
        let (closing, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.closing).into_iter().partition(|&(id, until)| now >= until || self.is_settled(id));
        self.closing = kept;
        closing.into_iter().for_each(|(id, _)| self.remove(id));
    }

    /// Close a connection of this endpoint.
    pub(crate) fn close_connection(&mut self, id: PointId, connection: am_api::Connection) {
        if self.point(id).is_some()
            && let Some(endpoint) = self.set.member(id.index as usize)
        {
            endpoint.close(connection);
        }
    }

    /// Find endpoints whose descriptor was closed. [`prepare_wait`](Dp::prepare_wait) does this too; a program that never waits calls this.
    /// Such an endpoint is closed when its messages were accepted, or after five seconds.
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

    /// The program has closed this endpoint's descriptor by its number. Its messages are still sent, for up to five seconds.
    pub fn note_closed(&mut self, point: Point) {
        self.begin_closing(point.id);
        point.forget();
    }

    /// Make sure that each readable descriptor still has its byte: the program may have read it.
    fn renew_signals(&mut self) {
        let inboxes = &mut self.inboxes;
        self.watched.retain(|&id| inboxes.get_mut(id).is_some_and(|inbox| inbox.signal.renew()));
    }

    /// A descriptor for a loop of the program's own. It becomes readable when there is work. Wait on it only after
    /// [`prepare_wait`](Dp::prepare_wait) has returned `true`.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }

    /// If this returns `false`, there is work: [`poll`](Dp::poll) again. If it returns `true`, wait on the [descriptor](Dp::descriptor), for
    /// at most [`next_deadline`](Dp::next_deadline).
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn prepare_wait(&mut self) -> io::Result<bool> {
        if self.needs_flush {
            self.flush();
        }
        self.look_for_hang_ups();
        self.renew_signals();
        Ok(!self.has_ended && self.sender.prepare_wait()?)
    }

    /// The longest wait.
    pub fn next_deadline(&self) -> Duration {
        // An acknowledgement does not make the descriptor readable.
        let is_leaving = !(self.closing.is_empty() && self.old_edges.is_empty());
        let own = match (is_leaving, self.watched.is_empty()) {
            (true, _) => Duration::from_millis(1),
            (false, false) => RENEWAL,
            (false, true) => Duration::MAX,
        };
        self.sender.next_deadline().min(own)
    }

    /// Poll, and sleep while there is nothing to do, until `wanted` returns `true` or the time is over. Returns whether it did.
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

    /// Close an endpoint when all its messages have been accepted, or when the time is over. Returns whether all were accepted.
    pub fn finish(&mut self, point: Point, timeout: Duration) -> bool {
        let is_done = self.wait_until(timeout, |dp| dp.is_accepted(&point));
        self.close(point);
        is_done
    }
}
