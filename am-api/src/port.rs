//! The part of an endpoint that handlers may use.

use std::cell::RefCell;
use std::fmt;

use am_proto::EndpointId;
use am_wire::control::Name;

use crate::awaited::Deadlines;
use crate::shared::Strong;

/// An endpoint without its handlers and its state: it connects and sends, but
/// does not poll. An [`Endpoint`](crate::Endpoint) derefs to its port, and
/// every [`Message`](crate::Message) brings the port that it came to.
pub struct Port {
    pub(crate) shared: Strong,
    pub(crate) id: EndpointId,
    pub(crate) name: Name,
    /// Requests that are to be answered in time.
    pub(crate) deadlines: RefCell<Deadlines>,
}

impl Port {
    /// The endpoint's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Let what was sent leave now instead of with the next poll.
    pub fn flush(&self) {
        self.shared.borrow_mut().exhale();
    }

    /// Another tag from now on. Conversations made with the old one end, and
    /// their peers are told.
    pub fn set_tag(&self, tag: u64) {
        self.shared.borrow_mut().core().set_tag(self.id, tag);
    }
}

impl Drop for Port {
    /// The endpoint closes; its peers are told at once.
    fn drop(&mut self) {
        if let Ok(mut shared) = self.shared.try_borrow_mut() {
            shared.core().close_endpoint(self.id);
            shared.inboxes.remove(self.id);
            let spent = shared.bulk.forget(self.id);
            shared.exhale();
            drop(shared);
            drop(spent);
        }
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("name", &self.name).finish_non_exhaustive()
    }
}
