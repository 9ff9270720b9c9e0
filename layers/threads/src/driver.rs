//! The half of a shared endpoint that stays on the node's thread: it sends the messages that other threads post, and hands received ones to
//! them.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use am_api::{Class, Endpoint, EndpointError, Events, Node, NodeDescriptor, ReplyError, RequestError};

use crate::handle::Alive;
use crate::inbox::{Handlers, Inbox, SharedReturned};
use crate::local::{Local, set_handlers};
use crate::peers::Peers;
use crate::shared::{Body, Post, Shared};
use crate::{CallError, SharedEndpoint, Tokens};

/// The longest sleep of [`Driver::run`].
const LONG: Duration = Duration::from_secs(3600);

/// Why an endpoint cannot be shared.
#[derive(thiserror::Error)]
pub enum ShareError {
    /// The node cannot create an endpoint of this name.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The node cannot create a waker.
    #[error("no waker for the node's thread: {0}; raise the limit of open files")]
    Waker(#[from] io::Error),
}

am_api::debug_as_display!(ShareError);

/// Create an endpoint of this node for several threads. The driver stays on this thread, which polls it. The endpoint may be cloned, and
/// sent to other threads.
///
/// # Errors
/// See [`ShareError`].
pub fn share(node: &Node, name: &str, handlers: Handlers) -> Result<(Driver, SharedEndpoint), ShareError> {
    share_with_tag(node, name, 0, handlers)
}

/// As [`share`], with a tag. Only endpoints that give the tag can connect to it.
///
/// # Errors
/// As for [`share`].
pub fn share_with_tag(
    node: &Node,
    name: &str,
    tag: u64,
    handlers: Handlers,
) -> Result<(Driver, SharedEndpoint), ShareError> {
    let mut endpoint = node.endpoint_with_tag(name, tag)?;
    set_handlers(&mut endpoint, &handlers);
    endpoint.set_event_mask(Events::all());
    let shared = Shared::new(node.waker()?, handlers.replies());
    let inbox = Arc::new(Inbox::new(handlers));
    let alive = Arc::new(Alive { shared: shared.clone(), inbox: inbox.clone() });
    let local = Local::new(shared, inbox);
    let driver =
        Driver { endpoint, local, peers: Peers::default(), posts: VecDeque::new(), handles: Arc::downgrade(&alive) };
    Ok((driver, SharedEndpoint(alive)))
}

/// The half of a shared endpoint that stays on the node's thread. It works only while it is polled. Dropping it ends all calls with
/// [`NodeDropped`](crate::CallError::NodeDropped).
pub struct Driver {
    endpoint: Endpoint<Local>,
    local: Local,
    peers: Peers,
    /// The posts that were taken from the handles. Empty between two polls.
    posts: VecDeque<Post>,
    handles: Weak<Alive>,
}

impl Driver {
    /// Send the messages that other threads have posted, receive, and hand received messages to the threads. Returns how many messages and
    /// events there were, in both directions.
    pub fn poll(&mut self) -> usize {
        let mut done = self.take_posts();
        done += self.pump();
        done += self.endpoint.poll(&mut self.local);
        self.hand_over();
        // What the handlers on this thread have posted.
        done += self.take_posts();
        if self.pump() > 0 {
            self.endpoint.flush();
        }
        done
    }

    /// As [`poll`](Driver::poll). If there is nothing to do, first wait, at most for this time. Spins, yields and sleeps as the node does.
    pub fn wait(&mut self, timeout: Duration) -> usize {
        let done = self.poll();
        if done > 0 {
            return done;
        }
        let timeout = timeout.min(self.peers.next_due().saturating_duration_since(Instant::now()));
        self.endpoint.wait_events(timeout);
        self.poll()
    }

    /// Poll until every handle was dropped, and all their posts have an outcome.
    pub fn run(&mut self) {
        while self.handles.strong_count() > 0 || self.is_busy() {
            self.wait(LONG);
        }
    }

    /// Whether a message waits to be sent, a call waits for its outcome, or a token waits for its reply.
    fn is_busy(&self) -> bool {
        let state = self.local.shared.lock();
        !state.posts.is_empty()
            || !self.peers.is_idle()
            || !self.local.calls.is_empty()
            || !self.local.under_way.is_idle()
            || self.local.tokens.is_held()
    }

    /// The node's descriptor, for [`Driver::poll_ready`]: see [`Endpoint::descriptor`].
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn descriptor(&self) -> io::Result<NodeDescriptor> {
        self.endpoint.descriptor()
    }

    /// For async executors: ready when the driver has to be [polled](Driver::poll). See [`Endpoint::poll_ready`] for `readable`. The driver
    /// has to be polled at [`Driver::next_deadline`] too.
    ///
    /// # Errors
    /// As for [`Endpoint::poll_ready`].
    pub fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        readable: impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        self.endpoint.poll_ready(cx, readable).map_ok(|_| ())
    }

    /// When to poll even if nothing is ready: at the deadline of a call that was not sent, or at the end of a connection's pause.
    pub fn next_deadline(&self) -> Instant {
        self.peers.next_due()
    }

    /// Converts tokens of this node's handlers, of any endpoint, to tokens for other threads.
    pub fn tokens(&self) -> Tokens {
        self.local.tokens.clone()
    }

    /// Handle the posts of the handles. Returns how many there were.
    fn take_posts(&mut self) -> usize {
        let Driver { endpoint, local, peers, posts, .. } = self;
        mem::swap(&mut local.shared.lock().posts, posts);
        let (count, mut has_cancelled) = (posts.len(), false);
        for post in posts.drain(..) {
            match post {
                Post::Connect { peer, link, reconnect } => peers.add(peer, link, reconnect, endpoint, local),
                Post::Close(peer) => peers.close(peer, endpoint, local),
                Post::Request(peer, body) => peers.push_request(peer, body, local),
                Post::Call(key, peer) => peers.push_call(peer, key, local),
                Post::Reply(key, body) => reply(local, key, body),
                Post::Transfer(peer, task) => peers.push_transfer(peer, task, local),
                Post::Region(post) => local.under_way.on_post(endpoint, post),
                Post::Cancel => has_cancelled = true,
                // Without the token the reply is declined.
                Post::Decline(key) => drop(local.tokens.take(key)),
            }
        }
        if has_cancelled {
            local.under_way.cancel_dropped(endpoint);
            peers.drop_cancelled(local);
        }
        count
    }

    /// Send the messages that can be sent now.
    fn pump(&mut self) -> usize {
        self.peers.pump(&mut self.endpoint, &mut self.local)
    }

    /// After a poll, hand received messages and events to the other threads.
    fn hand_over(&mut self) {
        let Driver { local, peers, handles, .. } = self;
        let now = Instant::now();
        for (connection, change) in mem::take(&mut local.ended) {
            peers.on_ended(connection, change, now, local);
        }
        for (key, peer, error) in mem::take(&mut local.unhandled) {
            peers.send_again(peer, key, error, local);
        }
        local.under_way.settle();
        if handles.strong_count() == 0 {
            // No thread will take these. Dropping a request declines its reply.
            local.arrived.clear();
            local.inbox.clear();
        } else if local.inbox.handlers.are_on_driver {
            local.arrived.drain(..).for_each(|item| local.inbox.run(&local.shared, item));
        } else if !local.arrived.is_empty() {
            local.inbox.append(&mut local.arrived);
        }
        local.wakers.drain(..).for_each(Waker::wake);
    }
}

fn reply(local: &mut Local, key: slotmap::DefaultKey, body: Body) {
    let Some(token) = local.tokens.take(key) else { return };
    let (from, Body { handler, words, payload }) = (token.from(), body);
    match token.reply(handler, words.as_slice(), &payload) {
        Ok(()) => local.shared.lock().recycle(payload),
        Err(error) => {
            let to = local.peer_of(from);
            let why = CallError::NotSent(as_request_error(error));
            local.return_message(SharedReturned { to, class: Class::Reply, handler, words, payload, why });
        }
    }
}

fn as_request_error(error: ReplyError) -> RequestError {
    match error {
        ReplyError::Dead(reason) => RequestError::Dead(reason),
        ReplyError::Closed => RequestError::Closed,
        ReplyError::NodeDropped => RequestError::NodeDropped,
        ReplyError::TooLarge { needs, most } => RequestError::TooLarge { needs, most },
        ReplyError::TooManyWords { count, most } => RequestError::TooManyWords { count, most },
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.local.shared.close();
        self.local.inbox.close();
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
