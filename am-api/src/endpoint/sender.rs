//! An endpoint for code that is not a handler and does not poll.

use std::ops::Deref;

use am_engine::Idle;

use super::Endpoint;

/// An endpoint as handlers have it, for any other code on the node's thread: tasks, timers, objects that send. Through it such code
/// can do everything but poll and set handlers, also while a handler runs. Answers, outcomes and events go to the handlers of the endpoint.
///
/// It keeps the node, and not the endpoint: once that is dropped, its connections are closed.
///
/// ```
/// use am_api::{Connection, Endpoint, HandlerId, RequestError, Sender};
///
/// /// Reports from anywhere in the program.
/// struct Report {
///     sender: Sender,
///     to: Connection,
/// }
///
/// impl Report {
///     fn new<S>(endpoint: &Endpoint<S>, to: Connection) -> Report {
///         Report { sender: endpoint.sender(), to }
///     }
///
///     fn line(&self, text: &str) -> Result<(), RequestError> {
///         self.sender.try_request(self.to, HandlerId(3), &[], text.as_bytes())
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Sender(Endpoint<()>);

impl<S> Endpoint<S> {
    /// This endpoint for code on the node's thread that cannot borrow it.
    pub fn sender(&self) -> Sender {
        Sender(Endpoint::new(self.node.clone(), self.id, self.name, Idle::default(), Some(self.shared.clone())))
    }
}

impl Deref for Sender {
    type Target = Endpoint<()>;

    fn deref(&self) -> &Endpoint<()> {
        &self.0
    }
}
