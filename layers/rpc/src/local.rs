//! What code on the node's thread does with the endpoint while something else polls it.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use am_api::{InvalidName, Name};

use crate::peer::Peer;
use crate::runtime::Runtime;
use crate::sleep::Sleep;

/// The endpoint that [`Rpc::open`](crate::Rpc::open) opens, and that [`Local::peer`] calls.
pub(crate) const ENDPOINT: &str = "rpc";

/// An [`Rpc`](crate::Rpc) for code on the node's thread that does not poll: tasks, methods, what [`Remote::run`](crate::Remote::run) begins.
#[derive(Clone)]
pub struct Local(pub(crate) Rc<Runtime>);

impl Local {
    /// The endpoint `rpc` of the node of this name. It is connected when it is called.
    ///
    /// # Errors
    /// The name is none.
    pub fn peer(&self, node: &str) -> Result<Peer, InvalidName> {
        self.peer_at(node, ENDPOINT, 0)
    }

    /// An endpoint of another name, which has this tag.
    ///
    /// # Errors
    /// One of the names is none.
    pub fn peer_at(&self, node: &str, endpoint: &str, tag: u64) -> Result<Peer, InvalidName> {
        for name in [node, endpoint] {
            Name::new(name).ok_or_else(|| InvalidName(name.into()))?;
        }
        Ok(Peer::new(self.0.clone(), self.0.peer_named((node, endpoint, tag))))
    }

    /// Wait so long, in a task of the node.
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep::new(&self.0, time)
    }

    /// Run this future as a task of the node.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.0.tasks.spawn(Box::pin(future));
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}
