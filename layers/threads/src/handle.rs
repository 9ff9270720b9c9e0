//! The half of a shared endpoint that goes to any thread.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use am_api::{ConnectError, Description, HandlerId, Incarnation, InvalidName, Name, RequestError};
use am_base::Link;

use crate::inbox::Inbox;
use crate::shared::{Body, MAX_QUEUED, Post, Shared, State, weight};
use crate::words::Words;
use crate::{Peer, Reconnect};

/// The most messages that one [`poll`](SharedEndpoint::poll) hands to handlers.
const BUDGET: usize = 64;

/// An endpoint that several threads send on, poll and wait on, each with a clone (AM-II's `AM_PAR`).
///
/// | | |
/// | --- | --- |
/// | [`try_request`](Self::try_request), [`request`](Self::request) | a message; if it is not delivered, [`on_returned`](crate::Handlers::on_returned) gets it |
/// | [`call`](Self::call) | a message with one outcome, which is a future |
/// | [`poll`](Self::poll), [`wait`](Self::wait) | run handlers, on this thread |
///
/// A thread's requests to one peer are sent in the order in which it posts them. The threads take messages in the order in which they
/// arrive. Handlers on two threads may run at the same time.
#[derive(Clone)]
pub struct SharedEndpoint(pub(crate) Arc<Alive>);

/// Shared by all handles. Its drop means that the last handle was dropped.
pub(crate) struct Alive {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbox: Arc<Inbox>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.shared.waker.wake();
    }
}

impl SharedEndpoint {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Connect to an endpoint of a node. Messages that are sent before the connection is open wait for it.
    ///
    /// # Errors
    /// A name is invalid, or the driver was dropped. Other errors are those of the messages that are sent.
    pub fn connect(&self, node: &str, endpoint: &str, reconnect: Reconnect) -> Result<Peer, ConnectError> {
        self.connect_with_tag(node, endpoint, 0, reconnect)
    }

    /// As [`connect`](SharedEndpoint::connect), with an endpoint that has a tag.
    ///
    /// # Errors
    /// As for [`SharedEndpoint::connect`].
    pub fn connect_with_tag(
        &self,
        node: &str,
        endpoint: &str,
        tag: u64,
        reconnect: Reconnect,
    ) -> Result<Peer, ConnectError> {
        for name in [node, endpoint] {
            Name::new(name).ok_or_else(|| InvalidName(name.to_owned()))?;
        }
        let mut state = self.shared().lock();
        if state.is_closed {
            return Err(ConnectError::Closed);
        }
        let peer = Peer(state.peers.insert(None));
        self.shared().post(state, Post::Connect { peer, link: Link::to(node, endpoint, tag), reconnect });
        Ok(peer)
    }

    /// The connection with this peer: the run of its node, framing, sizes and transport, as they were when it opened. `None` while there is
    /// none.
    pub fn describe(&self, peer: Peer) -> Option<Description> {
        self.shared().lock().peers.get(peer.0)?.clone()
    }

    /// The longest payload of a message to this peer. `None` while there is no connection.
    pub fn max_payload(&self, to: Peer) -> Option<usize> {
        let state = self.shared().lock();
        state.peers.get(to.0)?.as_ref().map(Description::max_payload)
    }

    /// The run of this peer's node: see [`Endpoint::incarnation`](am_api::Endpoint::incarnation). `None` while there is no connection.
    pub fn incarnation(&self, of: Peer) -> Option<Incarnation> {
        self.shared().lock().peers.get(of.0)?.as_ref()?.incarnation
    }

    /// Close the connection with this peer. Messages that wait for it fail, and so do later ones.
    pub fn close(&self, peer: Peer) {
        let state = self.shared().lock();
        if !state.is_closed {
            self.shared().post(state, Post::Close(peer));
        }
    }

    /// Post a request: at the peer, the request handler `handler` runs with these words (at most 4) and this payload. The node's thread
    /// sends it. If that fails, or it is not delivered, [`on_returned`](crate::Handlers::on_returned) gets it.
    ///
    /// # Errors
    /// [`QueueFull`](RequestError::QueueFull) if too many requests wait for the node's thread or for room at their receivers, or have returned
    /// and wait for [`on_returned`](crate::Handlers::on_returned); [`TooManyWords`](RequestError::TooManyWords), [`NodeDropped`](RequestError::NodeDropped).
    pub fn try_request(&self, to: Peer, handler: HandlerId, words: &[u64], payload: &[u8]) -> Result<(), RequestError> {
        let words = words_of(words)?;
        let mut state = self.shared().lock();
        check(&state)?;
        let payload = state.buffer(payload);
        state.queued += weight(&payload);
        self.shared().post(state, Post::Request(to, Body { handler, words, payload }));
        Ok(())
    }

    /// As [`try_request`](SharedEndpoint::try_request), but waits until there is room in the queue. On the node's own thread it does not
    /// wait, because only that thread makes room.
    ///
    /// # Errors
    /// Those of [`SharedEndpoint::try_request`]; [`QueueFull`](RequestError::QueueFull) only on the node's thread.
    pub fn request(&self, to: Peer, handler: HandlerId, words: &[u64], payload: &[u8]) -> Result<(), RequestError> {
        loop {
            match self.try_request(to, handler, words, payload) {
                Err(RequestError::QueueFull) if !self.shared().is_own_thread() => {}
                done => return done,
            }
            let mut state = self.shared().lock();
            while check(&state) == Err(RequestError::QueueFull) {
                state = self.shared().room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Run the handlers of received messages and events, on this thread, without waiting. Returns how many ran.
    pub fn poll(&self) -> usize {
        let next = || self.0.inbox.pop();
        (0..BUDGET).map_while(|_| next()).map(|item| self.0.inbox.run(self.shared(), item)).count()
    }

    /// Wait for a message or an event, at most for this time, and run its handler. Each one wakes one of the waiting threads. Returns how
    /// many handlers ran: 0 if the time is over, or the driver was dropped.
    pub fn wait(&self, timeout: Duration) -> usize {
        match self.0.inbox.wait(timeout) {
            Some(item) => {
                self.0.inbox.run(self.shared(), item);
                1
            }
            None => 0,
        }
    }

    /// Whether the driver was dropped, so that nothing arrives any more.
    pub fn is_closed(&self) -> bool {
        self.shared().lock().is_closed
    }
}

fn words_of(words: &[u64]) -> Result<Words, RequestError> {
    const MOST: usize = 4;
    Words::new(words).ok_or(RequestError::TooManyWords { count: words.len(), most: MOST })
}

fn check(state: &State) -> Result<(), RequestError> {
    if state.is_closed {
        return Err(RequestError::NodeDropped);
    }
    if state.queued >= MAX_QUEUED { Err(RequestError::QueueFull) } else { Ok(()) }
}

impl fmt::Debug for SharedEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedEndpoint").finish_non_exhaustive()
    }
}
