//! The driver's connections, and the messages that wait to be sent on them.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use am_api::{Class, Connection, ConnectionChange, Endpoint, HandlerId, NotOpen, RequestError};
use am_base::Link;
use slotmap::{DefaultKey, SecondaryMap};

use crate::inbox::SharedReturned;
use crate::local::Local;
use crate::outcome::Task;
use crate::shared::{Body, CallSlot, Phase, after, weight};
use crate::{CallError, Peer, Reconnect};

/// The time until the next deadline, if there is none.
const NOT_SOON: Duration = Duration::from_secs(3600);

pub(crate) struct Peers {
    records: SecondaryMap<DefaultKey, Record>,
    /// Peers with messages to send.
    busy: Vec<Peer>,
    /// The peers that a pump visits. Empty between two pumps.
    visited: Vec<Peer>,
    /// When to check waiting messages even if no event arrives.
    due: Option<Instant>,
    /// Handlers for whose outcomes a function is set.
    calls: [bool; 256],
}

#[derive(Default)]
struct Record {
    link: Link,
    reconnect: Reconnect,
    /// Why the peer is not connected again.
    failed: Option<CallError>,
    queue: VecDeque<Queued>,
}

enum Queued {
    Request(Body),
    Call(DefaultKey, Instant),
    Transfer(Task),
}

impl Default for Peers {
    fn default() -> Self {
        Peers { records: SecondaryMap::new(), busy: Vec::new(), visited: Vec::new(), due: None, calls: [false; 256] }
    }
}

impl Peers {
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    pub(crate) fn next_due(&self) -> Instant {
        self.due.unwrap_or_else(|| Instant::now() + NOT_SOON)
    }

    pub(crate) fn add(
        &mut self,
        peer: Peer,
        link: Link,
        reconnect: Reconnect,
        endpoint: &Endpoint<Local>,
        local: &mut Local,
    ) {
        let mut record = Record { link, reconnect, ..Record::default() };
        record.connection_now(peer, Instant::now(), endpoint, local);
        self.records.insert(peer.0, record);
    }

    /// Close the connection. Messages that wait for it fail.
    pub(crate) fn close(&mut self, peer: Peer, endpoint: &Endpoint<Local>, local: &mut Local) {
        let connection = local.peers.iter().find(|(_, of)| **of == peer).map(|(connection, _)| *connection);
        if let Some(connection) = connection {
            endpoint.close(connection);
            local.peers.remove(&connection);
        }
        self.remove(peer, &CallError::NotSent(RequestError::Closed), local);
    }

    fn remove(&mut self, peer: Peer, why: &CallError, local: &mut Local) {
        local.shared.lock().peers.remove(peer.0);
        self.busy.retain(|busy| *busy != peer);
        let queue = self.records.remove(peer.0).map(|record| record.queue).unwrap_or_default();
        queue.into_iter().for_each(|queued| local.fail(peer, queued, why.clone()));
    }

    pub(crate) fn push_request(&mut self, peer: Peer, body: Body, local: &mut Local) {
        self.push(peer, Queued::Request(body), local);
    }

    pub(crate) fn push_call(&mut self, peer: Peer, key: DefaultKey, local: &mut Local) {
        let due = local.shared.lock().calls.get(key).map(|slot| slot.due);
        if let Some(due) = due {
            self.push(peer, Queued::Call(key, due), local);
        }
    }

    pub(crate) fn push_transfer(&mut self, peer: Peer, task: Task, local: &mut Local) {
        self.push(peer, Queued::Transfer(task), local);
    }

    /// Forget the queued messages and transfers whose futures were dropped.
    pub(crate) fn drop_cancelled(&mut self, local: &mut Local) {
        let records = &mut self.records;
        self.busy.retain(|peer| {
            let Some(record) = records.get_mut(peer.0) else { return false };
            record.queue.retain(|queued| !local.is_cancelled(queued));
            !record.queue.is_empty()
        });
    }

    fn push(&mut self, peer: Peer, queued: Queued, local: &mut Local) {
        let is_known = local.shared.lock().peers.contains_key(peer.0);
        let Some(record) = self.records.entry(peer.0).filter(|_| is_known).map(|entry| entry.or_default()) else {
            return local.fail(peer, queued, CallError::NotSent(RequestError::Closed));
        };
        if record.link.node().is_none() && record.link.connection().is_none() {
            // The peer has connected to this endpoint.
            let found = local.peers.iter().find(|(_, of)| **of == peer);
            found.into_iter().for_each(|(connection, _)| record.link.adopt(*connection));
        }
        if record.queue.is_empty() {
            self.busy.push(peer);
        } else if record.queue.len() == record.queue.capacity() {
            // Remove cancelled calls here, because nothing else does while the peer is not connected.
            record.queue.retain(|queued| !local.is_cancelled(queued));
            record.queue.reserve(record.queue.len() + 1);
        }
        record.queue.push_back(queued);
    }

    /// A call returned, and no handler ran for it. Send it again if the peer may be connected again.
    pub(crate) fn send_again(&mut self, peer: Peer, key: DefaultKey, error: CallError, local: &mut Local) {
        let may = self.records.get(peer.0).is_some_and(|record| record.reconnect != Reconnect::Never);
        if may {
            return self.push_call(peer, key, local);
        }
        let waker = local.shared.lock().finish(key, Err(error));
        local.wakers.extend(waker);
    }

    /// A connection failed or ended. This side did not close it.
    pub(crate) fn on_ended(
        &mut self,
        connection: Connection,
        change: ConnectionChange,
        now: Instant,
        local: &mut Local,
    ) {
        let Some(peer) = local.peers.remove(&connection) else { return };
        let why = match change {
            ConnectionChange::Failed(why) => RequestError::from(why),
            ConnectionChange::Ended(reason) => NotOpen::Dead(reason).into(),
            ConnectionChange::Opened | ConnectionChange::Accepted => return,
        };
        match self.records.get_mut(peer.0) {
            Some(record) if record.link.node().is_some() => {
                let mut again_at = now;
                match record.reconnect {
                    Reconnect::Never => record.failed = Some(why.into()),
                    Reconnect::After(pause) => again_at = after(now, pause),
                }
                record.link.end(again_at);
            }
            _ => self.remove(peer, &why.into(), local),
        }
    }

    /// Send the messages that can be sent now. Returns how many.
    pub(crate) fn pump(&mut self, endpoint: &mut Endpoint<Local>, local: &mut Local) -> usize {
        if self.busy.is_empty() {
            return 0;
        }
        let now = Instant::now();
        let is_due = self.due.is_some_and(|due| due <= now);
        self.due = None;
        let mut visited = mem::take(&mut self.visited);
        mem::swap(&mut self.busy, &mut visited);
        let sent = visited.drain(..).map(|peer| self.pump_one(peer, (now, is_due), endpoint, local)).sum();
        self.visited = visited;
        sent
    }

    fn pump_one(
        &mut self,
        peer: Peer,
        (now, is_due): (Instant, bool),
        endpoint: &mut Endpoint<Local>,
        local: &mut Local,
    ) -> usize {
        let Some(record) = self.records.get_mut(peer.0) else { return 0 };
        let mut queue = mem::take(&mut record.queue);
        if is_due {
            queue.retain(|queued| !local.is_over(queued, now));
        }
        let connection = record.connection_now(peer, now, endpoint, local);
        let failed = record.failed.clone();
        let mut sent = 0;
        while let Some(queued) = queue.pop_front() {
            let left = match (connection, &failed) {
                (_, Some(why)) => {
                    local.fail(peer, queued, why.clone());
                    continue;
                }
                (Some(connection), None) => self.send((peer, connection), queued, now, endpoint, local),
                (None, None) => Some(queued),
            };
            if let Some(queued) = left {
                queue.push_front(queued);
                break;
            }
            sent += 1;
        }
        self.requeue(peer, queue);
        sent
    }

    /// Messages that could not be sent wait for an event, a deadline or the end of a pause.
    fn requeue(&mut self, peer: Peer, queue: VecDeque<Queued>) {
        let Some(record) = self.records.get_mut(peer.0) else { return };
        record.queue = queue;
        if record.queue.is_empty() {
            return;
        }
        let calls = record.queue.iter().filter_map(|queued| match queued {
            Queued::Call(_, due) => Some(*due),
            Queued::Request(_) | Queued::Transfer(_) => None,
        });
        self.due = calls.chain(record.link.paused_until()).chain(self.due).min();
        self.busy.push(peer);
    }

    /// Send a queued message. Returns it if it has to wait.
    fn send(
        &mut self,
        (peer, connection): (Peer, Connection),
        queued: Queued,
        now: Instant,
        endpoint: &mut Endpoint<Local>,
        local: &mut Local,
    ) -> Option<Queued> {
        let queued = match queued {
            // An error of the begun transfer is final, so it begins only when the connection is open.
            Queued::Transfer(task) if task.is_cancelled() => return None,
            Queued::Transfer(task) if endpoint.is_open(connection) => {
                local.under_way.begin(endpoint, connection, task);
                return None;
            }
            other => other,
        };
        let result = match &queued {
            Queued::Transfer(_) => Err(RequestError::Connecting),
            Queued::Request(Body { handler, words, payload }) => {
                endpoint.try_request(connection, *handler, words.as_slice(), payload)
            }
            Queued::Call(key, _) => self.send_call(*key, (peer, connection), now, endpoint, local),
        };
        match result {
            Ok(()) => local.on_sent(queued),
            Err(RequestError::Dead(_) | RequestError::Refused(_)) => return Some(queued),
            Err(error) if error.is_temporary() => return Some(queued),
            Err(error) => local.fail(peer, queued, error.into()),
        }
        None
    }

    fn send_call(
        &mut self,
        key: DefaultKey,
        (peer, connection): (Peer, Connection),
        now: Instant,
        endpoint: &mut Endpoint<Local>,
        local: &mut Local,
    ) -> Result<(), RequestError> {
        let shared = local.shared.clone();
        let mut state = shared.lock();
        match state.calls.get(key) {
            Some(CallSlot { phase: Phase::Waiting, handler, words, payload, due, .. }) => {
                self.listen(*handler, endpoint);
                let within = due.saturating_duration_since(now);
                let id = endpoint.try_call(connection, *handler, words.as_slice(), payload, within)?;
                local.calls.insert(id, (key, peer));
            }
            _ => state.remove_call(key),
        }
        Ok(())
    }

    /// Set a function for the outcomes of calls to this handler.
    fn listen(&mut self, handler: HandlerId, endpoint: &mut Endpoint<Local>) {
        if !mem::replace(&mut self.calls[handler.0 as usize], true) {
            endpoint.on_outcome(handler, Local::on_outcome);
        }
    }
}

impl Record {
    /// The connection to send on. If there is none, open it again, unless the peer has failed or is in a pause.
    fn connection_now(
        &mut self,
        peer: Peer,
        now: Instant,
        endpoint: &Endpoint<Local>,
        local: &mut Local,
    ) -> Option<Connection> {
        let known = self.link.connection();
        if known.is_some() || self.failed.is_some() {
            return known;
        }
        let connection = self.link.connect(endpoint, now).unwrap_or_else(|error| {
            self.failed = Some(error.into());
            None
        })?;
        local.peers.insert(connection, peer);
        Some(connection)
    }
}

impl Local {
    /// Whether the deadline of a call has passed. If so, it gets its outcome.
    fn is_over(&mut self, queued: &Queued, now: Instant) -> bool {
        let Queued::Call(key, due) = queued else { return false };
        let mut state = self.shared.lock();
        let is_over = *due <= now;
        if is_over {
            let waker = state.finish(*key, Err(CallError::TimedOut));
            drop(state);
            self.wakers.extend(waker);
        }
        is_over
    }

    /// Whether a call was cancelled. If so, it is forgotten.
    fn is_cancelled(&mut self, queued: &Queued) -> bool {
        let key = match queued {
            Queued::Call(key, _) => key,
            Queued::Transfer(task) => return task.is_cancelled(),
            Queued::Request(_) => return false,
        };
        let mut state = self.shared.lock();
        let is_cancelled = state.calls.get(*key).is_none_or(|slot| matches!(slot.phase, Phase::Cancelled));
        if is_cancelled {
            state.remove_call(*key);
        }
        is_cancelled
    }

    /// A message was sent.
    fn on_sent(&mut self, queued: Queued) {
        if let Queued::Request(body) = queued {
            let freed = weight(&body.payload);
            self.shared.lock().recycle(body.payload);
            self.shared.leave_queue(freed);
        }
    }

    /// A message will not be sent: return the request, or end the call.
    fn fail(&mut self, peer: Peer, queued: Queued, why: CallError) {
        match queued {
            Queued::Request(Body { handler, words, payload }) => {
                let freed = weight(&payload);
                let returned = SharedReturned { to: peer, class: Class::Request, handler, words, payload, why };
                self.return_message(returned);
                self.shared.leave_queue(freed);
            }
            Queued::Call(key, _) => {
                let waker = self.shared.lock().finish(key, Err(why));
                self.wakers.extend(waker);
            }
            Queued::Transfer(task) => task.fail(why.into()),
        }
    }
}
