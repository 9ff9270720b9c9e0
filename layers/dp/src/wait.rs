//! The loop: what arrives goes into the pools, what waits leaves, and descriptors say what can be read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll as poll_descriptors};

use crate::dp::{Dp, PointId};
use crate::edge::Target;
use crate::Point;

/// The longest that an endpoint lives on after its descriptor was closed, for what it wrote.
const LINGER: Duration = Duration::from_secs(5);

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// One turn: receive into the pools, send what waits, make descriptors readable. Returns how many messages and events were
    /// handled.
    pub fn poll(&mut self) -> usize {
        let handled = self.turn();
        self.signal_arrivals(None);
        if self.owes {
            self.flush();
        }
        handled
    }

    /// A turn, without the descriptors. What it owes to senders leaves with the program's next message, or before the next turn: a
    /// program that answers what it has read sends once, and not twice.
    #[inline]
    pub(crate) fn turn(&mut self) -> usize {
        if self.owes {
            self.flush();
        }
        let handled = self.set.receive(&mut ());
        self.owes = handled > 0;
        if handled == 0 {
            self.door.flush();
        }
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
        if self.arrivals.has_some.take() {
            self.look_at_arrivals(reading);
        }
    }

    #[cold]
    fn look_at_arrivals(&mut self, reading: Option<PointId>) {
        for id in self.arrivals.special.take() {
            self.has_ended = true;
            let Some(state) = self.points.get_mut(id) else { continue };
            for (from, most) in std::mem::take(&mut state.inbox.borrow_mut().refusals) {
                if let Some(edge) = state.edge.as_mut().filter(|edge| edge.target == Target::Remote(from)) {
                    edge.refuse(usize::try_from(most).unwrap_or(usize::MAX));
                }
            }
        }
        for id in self.arrivals.readable.borrow_mut().drain(..) {
            if let Some(state) = self.points.get(id) {
                state.inbox.borrow_mut().take_arrival(Some(id) != reading);
            }
        }
    }

    /// Connections ended, and a turn has handled nothing more: what they left incomplete goes.
    #[cold]
    fn drop_incomplete(&mut self) {
        self.has_ended = false;
        for state in self.points.values() {
            state.inbox.borrow_mut().drop_incomplete();
        }
    }

    /// Long messages, redirected edges, endpoints that close.
    #[cold]
    fn push_on(&mut self) {
        let (door, points) = (&self.door, &mut self.points);
        self.sending.retain(|&id| {
            let Some(edge) = points.get_mut(id).and_then(|state| state.edge.as_mut()) else { return false };
            if let Target::Remote(to) = edge.target {
                edge.push(to, door);
            }
            edge.is_sending()
        });
        let mut done = vec![];
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
        let Some(name) = self.points.get(id).map(|state| state.dpid.endpoint()) else { return };
        if let Some(endpoint) = self.set.get(&name) {
            endpoint.close(connection);
        }
    }

    /// Look for endpoints whose descriptor was closed. They go when what they wrote was accepted, or five seconds later.
    fn look_for_hang_ups(&mut self) {
        for id in self.readiness.hang_ups() {
            let Some(state) = self.points.get_mut(id) else { continue };
            if let Some(signal) = &state.inbox.borrow().signal {
                self.readiness.forget(signal.as_fd());
            }
            state.is_closing = true;
            self.closing.push((id, Instant::now() + LINGER));
        }
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
        self.look_for_hang_ups();
        Ok(!self.has_ended && self.door.prepare_wait()?)
    }

    /// The longest wait.
    pub fn next_deadline(&self) -> Duration {
        // Acceptance makes no descriptor readable.
        let is_leaving = !(self.closing.is_empty() && self.old_edges.is_empty());
        let own = if is_leaving { Duration::from_millis(1) } else { Duration::MAX };
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
