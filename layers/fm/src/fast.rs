//! The three calls.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use am_api::{Counters, Endpoint, EndpointError, Node, OpenError, Problem, Request, RequestError, Token, Transport};

use crate::links::{ENDPOINT, Links, PUMP};
use crate::message::{Message, Returned};
use crate::{Cluster, HandlerId, Rank, SendError};

/// A node that speaks Fast Messages. `S` is the state that its handlers work
/// on: whoever sends or extracts lends it.
pub struct Fm<S> {
    node: Node,
    endpoint: Endpoint<S>,
    links: Rc<Links>,
}

/// Why there is no such node.
#[derive(thiserror::Error)]
pub enum FmError {
    /// Its transport.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its endpoints.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A node with another name.
    #[error("the node is called `{node}`, but number {own} in the list is `{listed}`: open it under that name")]
    Name {
        /// What it is called.
        node: String,
        /// The number in the list.
        own: Rank,
        /// The name there.
        listed: String,
    },
}

am_api::debug_as_display!(FmError);

/// Not all nodes are there.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeetError {
    /// These did not answer in time.
    #[error("nodes {0:?} do not answer: are they running, on this network, under the names in the list?")]
    Missing(Vec<usize>),
    /// They cannot be talked to.
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
    /// A node of the cluster on a transport, under the name that the list says.
    pub fn open(cluster: Cluster, transport: Box<dyn Transport>) -> Result<Fm<S>, FmError> {
        let node = Node::open_on(cluster.own_name(), transport)?;
        Fm::on_node(node, cluster)
    }

    /// The same on a node that is open: with settings of its own, or endpoints besides.
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

    /// Run this for messages that name `handler`. Messages for handlers that are not set
    /// come back to their senders, and are counted (`no_handler`).
    pub fn on(&mut self, handler: HandlerId, run: impl FnMut(&mut S, &Message<'_, S>) + 'static) {
        // What arrives is a request or the answer to one: to FM they are the same.
        let run = Rc::new(RefCell::new(run));
        let (same, links) = (run.clone(), self.links.clone());
        self.endpoint.on_request(handler, move |state, Request { message, token }| {
            run_one(&links, &same, state, message, Some(token));
        });
        let links = self.links.clone();
        self.endpoint.on_reply(handler, move |state, message| run_one(&links, &run, state, message, None));
    }

    /// Run this for messages of ours that come back. Without it they are
    /// counted (`returned`) and dropped. It may not send.
    pub fn on_returned(&mut self, mut run: impl FnMut(&mut S, Returned<'_, S>) + 'static) {
        let links = self.links.clone();
        self.endpoint.on_returned(move |state, returned| {
            let dest = links.whose(returned.message.endpoint(), returned.to());
            run(state, Returned { returned, dest });
        });
    }

    /// `FM_send_4`: send four words. Where the receiver has no room this
    /// waits, however long it takes, and runs handlers meanwhile.
    #[inline]
    pub fn send_4(&mut self, state: &mut S, dest: Rank, handler: HandlerId, words: [u64; 4]) -> Result<(), SendError> {
        self.dispatch(state, dest, handler, (&words, b""))
    }

    /// `FM_send`: send bytes, at most what one frame carries. They may be
    /// changed as soon as this returns. It waits as [`Fm::send_4`] does.
    #[inline]
    pub fn send(&mut self, state: &mut S, dest: Rank, handler: HandlerId, bytes: &[u8]) -> Result<(), SendError> {
        self.dispatch(state, dest, handler, (&[], bytes))
    }

    /// `FM_extract`: take in what has arrived, and run the handlers of some of
    /// it; at most 64, so that who extracts gets on with its work. Returns how many.
    #[inline]
    pub fn extract(&mut self, state: &mut S) -> usize {
        self.endpoint.poll(state)
    }

    /// Extract until something has been handled or the time is over: spin,
    /// yield, sleep meanwhile. Returns how many were handled.
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
            // What has ended was an earlier connection: the node may be back.
            if !(is_earlier && matches!(error, SendError::Unreachable { .. })) {
                return Err(error);
            }
            is_earlier = false;
        }
        self.endpoint.flush();
        Ok(())
    }

    /// The most bytes that one message to this node carries; `None` while
    /// there is no connection with it: the first message makes one.
    pub fn most(&self, dest: Rank) -> Option<usize> {
        if !self.links.has_link(dest) {
            return None;
        }
        let to = self.links.link(&self.endpoint, dest).ok()?;
        self.endpoint.max_payload(to, 0)
    }

    /// How long a handler may wait for room before it gets [`SendError::Stuck`]; 5 s
    /// unless said otherwise.
    pub fn set_patience(&mut self, patience: Duration) {
        self.links.patience.set(patience);
    }

    /// The nodes there are.
    pub fn cluster(&self) -> &Cluster {
        &self.links.cluster
    }

    /// What keeps the node from sending or receiving anything, as [`Node::health`].
    ///
    /// # Errors
    /// Says what it is.
    pub fn health(&self) -> Result<(), Problem> {
        self.node.health()
    }

    /// The text of a failure that names a node, with what keeps this one from its peers, as [`Node::explain`].
    pub fn explain(&self, failure: &dyn fmt::Display) -> String {
        self.node.explain(failure)
    }

    /// Everything counted so far, in every layer.
    pub fn counters(&self) -> Counters {
        self.node.counters()
    }

    /// Wait until all nodes are there; handlers do not run. Not needed, but a
    /// first send waits for its node no longer than a connection takes to be set up, and says that it is not there.
    ///
    /// # Errors
    /// [`MeetError::Missing`], with who is not there when the time is over.
    pub fn meet(&mut self, timeout: Duration) -> Result<(), MeetError> {
        let missing = self.links.meet(&self.endpoint, timeout)?;
        if missing.is_empty() { Ok(()) } else { Err(MeetError::Missing(missing)) }
    }

    /// Leave: wait until what was sent has been accepted, then close. Runs no handlers.
    /// What has arrived and was not extracted is dropped. Dropping an `Fm` leaves without waiting.
    ///
    /// # Errors
    /// [`Unfinished`], when it takes longer.
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
