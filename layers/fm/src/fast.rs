//! [`Fm`], with FM's three calls.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use am_api::{Counters, Endpoint, EndpointError, Node, OpenError, Problem, Request, RequestError, Token, Transport};

use crate::links::{ENDPOINT, Links, PUMP};
use crate::message::{Message, Returned};
use crate::{Cluster, HandlerId, Rank, SendError};

/// A node that speaks Fast Messages. `S` is the state that its handlers work on: the calls that send or extract borrow it.
pub struct Fm<S> {
    node: Node,
    endpoint: Endpoint<S>,
    links: Rc<Links>,
}

/// Why an [`Fm`] could not be opened.
#[derive(thiserror::Error)]
pub enum FmError {
    /// The node could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An endpoint could not be created.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The node has another name than the list.
    #[error("the node is called `{node}`, but number {own} in the list is `{listed}`: open it under that name")]
    Name {
        /// The node's name.
        node: String,
        /// Its number in the list.
        own: Rank,
        /// Its name in the list.
        listed: String,
    },
}

am_api::debug_as_display!(FmError);

/// Why not all nodes were met.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeetError {
    /// These did not answer in time.
    #[error("nodes {0:?} do not answer: are they running, on this network, under the names in the list?")]
    Missing(Vec<usize>),
    /// No connection with a node is possible.
    #[error(transparent)]
    Send(#[from] SendError),
}

am_api::debug_as_display!(MeetError);

/// Nodes had not accepted everything when the time was over.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("messages to nodes {0:?} are still under way: they do not answer, and what was not accepted is lost")]
pub struct Unfinished(pub Vec<usize>);

am_api::debug_as_display!(Unfinished);

impl<S> Fm<S> {
    /// Open a node of the cluster on a transport, under its name in the list.
    pub fn open(cluster: Cluster, transport: Box<dyn Transport>) -> Result<Fm<S>, FmError> {
        // A message of Fast Messages is a frame.
        let node = Node::builder(cluster.own_name()).max_message(0).open_on(transport)?;
        Fm::on_node(node, cluster)
    }

    /// Use an open node, which may have its own settings and other endpoints.
    pub fn on_node(node: Node, cluster: Cluster) -> Result<Fm<S>, FmError> {
        if node.name() != cluster.own_name() {
            let (node, own, listed) = (node.name().to_owned(), cluster.own(), cluster.own_name().to_owned());
            return Err(FmError::Name { node, own, listed });
        }
        let mut endpoint = node.endpoint_with_tag(ENDPOINT, cluster.tag())?;
        let links = Rc::new(Links::new(cluster, node.endpoint(PUMP)?));
        let same = links.clone();
        endpoint.on_connection(move |_, event| same.on_connection(&event));
        Ok(Fm { node, endpoint, links })
    }

    /// Run this for messages that name `handler`. Messages for handlers that are not set return to their senders, and are counted
    /// (`no_handler`).
    pub fn on(&mut self, handler: HandlerId, run: impl FnMut(&mut S, &Message<'_, S>) + 'static) {
        // FM does not distinguish requests from replies, so the function is set for both.
        let run = Rc::new(RefCell::new(run));
        let (same, links) = (run.clone(), self.links.clone());
        self.endpoint.on_request(handler, move |state, Request { message, token }| {
            run_one(&links, &same, state, message, Some(token));
        });
        let links = self.links.clone();
        self.endpoint.on_reply(handler, move |state, message| run_one(&links, &run, state, message, None));
    }

    /// Run this for messages of this node that return. Without it they are counted (`returned`) and dropped. It cannot send.
    pub fn on_returned(&mut self, mut run: impl FnMut(&mut S, Returned<'_, S>) + 'static) {
        let links = self.links.clone();
        self.endpoint.on_returned(move |state, returned| {
            let dest = links.whose(returned.message.endpoint(), returned.to());
            run(state, Returned { returned, dest });
        });
    }

    /// `FM_send_4`: send four words. If the receiver has no room, this waits, however long that takes, and runs handlers meanwhile.
    #[inline]
    pub fn send_4(&mut self, state: &mut S, dest: Rank, handler: HandlerId, words: [u64; 4]) -> Result<(), SendError> {
        self.dispatch(state, dest, handler, (&words, b""))
    }

    /// `FM_send`: send bytes, at most one frame. They may be changed as soon as this returns. It waits as [`Fm::send_4`] does.
    #[inline]
    pub fn send(&mut self, state: &mut S, dest: Rank, handler: HandlerId, bytes: &[u8]) -> Result<(), SendError> {
        self.dispatch(state, dest, handler, (&[], bytes))
    }

    /// `FM_extract`: receive messages, and run the handlers of at most 64, so that the caller can continue with its own work. Returns how
    /// many ran.
    #[inline]
    pub fn extract(&mut self, state: &mut S) -> usize {
        self.endpoint.poll(state)
    }

    /// Extract until a message has been handled or the time is over. Spin, yield or sleep meanwhile. Returns how many were handled.
    pub fn extract_or_wait(&mut self, state: &mut S, timeout: Duration) -> usize {
        self.endpoint.wait(state, timeout)
    }

    fn dispatch(
        &mut self,
        state: &mut S,
        dest: Rank,
        handler: HandlerId,
        (words, bytes): (&[u64], &[u8]),
    ) -> Result<(), SendError> {
        let mut is_earlier = self.links.has_link(dest);
        loop {
            let to = self.links.link(&self.endpoint, dest)?;
            let Err(error) = self.endpoint.request(state, to, handler, words, bytes) else { break };
            if !matches!(error, RequestError::TooLarge { .. }) {
                self.links.forget(&self.endpoint, to);
            }
            let error = SendError::of_request(error, dest);
            // Only an earlier connection has ended. The node may have been restarted, so try a new one once.
            if !(is_earlier && matches!(error, SendError::Unreachable { .. })) {
                return Err(error);
            }
            is_earlier = false;
        }
        self.endpoint.flush();
        Ok(())
    }

    /// The most bytes of one message to this node. `None` while there is no connection with it; the first message makes one.
    pub fn most(&self, dest: Rank) -> Option<usize> {
        if !self.links.has_link(dest) {
            return None;
        }
        let to = self.links.link(&self.endpoint, dest).ok()?;
        self.endpoint.frame_payload(to, 0)
    }

    /// Set how long a handler may wait for room before it gets [`SendError::Stuck`]. The default is 5 s.
    pub fn set_patience(&mut self, patience: Duration) {
        self.links.patience.set(patience);
    }

    /// All nodes of the program.
    pub fn cluster(&self) -> &Cluster {
        &self.links.cluster
    }

    /// Check whether the node can send and receive, as [`Node::health`].
    ///
    /// # Errors
    /// The problem.
    pub fn health(&self) -> Result<(), Problem> {
        self.node.health()
    }

    /// The text of a failure that names a node, with the reason why this node does not reach its peers, as [`Node::explain`].
    pub fn explain(&self, failure: &dyn fmt::Display) -> String {
        self.node.explain(failure)
    }

    /// The counters of all layers.
    pub fn counters(&self) -> Counters {
        self.node.counters()
    }

    /// Wait until all nodes answer. Runs no handlers. This call is optional. Without it the first send to a node waits only for the set-up of
    /// its connection, and fails if the node has not started by then.
    ///
    /// # Errors
    /// [`MeetError::Missing`], with the nodes that have not answered when the time is over.
    pub fn meet(&mut self, timeout: Duration) -> Result<(), MeetError> {
        let missing = self.links.meet(&self.endpoint, timeout)?;
        if missing.is_empty() { Ok(()) } else { Err(MeetError::Missing(missing)) }
    }

    /// Leave: wait until all sent messages have been accepted, then close. Runs no handlers. Messages that were not extracted are dropped.
    /// Dropping an `Fm` leaves without waiting.
    ///
    /// # Errors
    /// [`Unfinished`], when the time is over.
    pub fn finish(self, timeout: Duration) -> Result<(), Unfinished> {
        let late = self.links.drain(&self.endpoint, timeout);
        if late.is_empty() { Ok(()) } else { Err(Unfinished(late)) }
    }
}

#[inline]
fn run_one<S, F: FnMut(&mut S, &Message<'_, S>)>(
    links: &Links,
    run: &RefCell<F>,
    state: &mut S,
    message: am_api::Message<'_, S>,
    token: Option<Token>,
) {
    let source = links.whose(message.endpoint(), message.from());
    run.borrow_mut()(state, &Message::new(message, links, source, token));
}

impl<S> fmt::Debug for Fm<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fm").field("cluster", &self.links.cluster).finish_non_exhaustive()
    }
}
