//! What a method knows of its call.

use std::fmt;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use am_api::{Connection, EndpointName};

use crate::control::{Cancelled, Control};
use crate::local::Local;
use crate::peer::Peer;
use crate::runtime::Runtime;

/// A call, as its method sees it: a method that takes a `&Context` first gets it. It is not an argument on the wire.
#[derive(Clone)]
pub struct Context {
    runtime: Rc<Runtime>,
    caller: Connection,
    due: Duration,
    /// For a method that is `async` or blocking.
    control: Option<Rc<Control>>,
}

impl Context {
    #[inline]
    pub(crate) fn new(
        runtime: &Rc<Runtime>,
        caller: Connection,
        due: Duration,
        control: Option<Rc<Control>>,
    ) -> Context {
        Context { runtime: runtime.clone(), caller, due, control }
    }

    /// The connection that the call came on.
    pub fn connection(&self) -> Connection {
        self.caller
    }

    /// The name of the caller: its node and its endpoint. `None` some time after it has left.
    pub fn caller(&self) -> Option<EndpointName> {
        self.runtime.caller(self.caller)
    }

    /// The caller as a peer: for calls in the other direction, on the same connection.
    pub fn peer(&self) -> Peer {
        Peer::new(self.runtime.clone(), self.runtime.peer_of(self.caller))
    }

    /// For other peers, tasks and waits.
    pub fn local(&self) -> Local {
        Local(self.runtime.clone())
    }

    /// How much time is left. Calls that the method makes while it runs have no more than that by themselves.
    pub fn remaining(&self) -> Duration {
        self.due.saturating_sub(self.runtime.sender.time())
    }

    /// Whether nobody waits for the result any more. A method that has not returned to the node since it began cannot know.
    pub fn is_cancelled(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.cancelled().is_some())
    }

    /// Waits until nobody waits for the result any more. The method decides what to do about it: it is never stopped in the middle.
    pub async fn cancelled(&self) -> Cancelled {
        match &self.control {
            Some(control) => control.wait().await,
            None => pending().await,
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("caller", &self.caller()).finish_non_exhaustive()
    }
}
